"""The catalogue, and the arms made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated import CPU, GPU, contrast
from slowstep.factors import (
    ALL_PHASES,
    CATALOGUE,
    Contrast,
    Meaning,
    check_levels,
    clash,
    combine,
    matrix,
    plan,
    without_refused,
)
from slowstep.factors.arms import CROSSED
from slowstep.settings import LEVEL_SECTIONS, Settings, load, override
from slowstep.settings.convert import to_plain
from slowstep.settings.run import Run

PARAMS = sorted((Path(__file__).resolve().parents[1] / "params").glob("*.yaml"))
QUICK = load(Path(__file__).resolve().parents[1] / "params" / "quick.yaml").settings
NOTHING = {section: {} for section in LEVEL_SECTIONS}
PLANNED = {c.name: c for section in LEVEL_SECTIONS for c in plan(QUICK, section, GPU)}


def flat(value: object, key: str = "") -> dict[str, object]:
    """Settings by dotted key."""
    if not isinstance(value, dict):
        return {key: value}
    return {k: v for name, item in value.items() for k, v in flat(item, f"{key}.{name}" if key else name).items()}


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_entry_can_be_read(name: str) -> None:
    """Every factor has a title, a hypothesis that is a sentence, what it changes, and phases that exist."""
    factor = CATALOGUE[name]

    assert name == factor.name
    assert factor.hypothesis.endswith(".")
    assert factor.title
    assert factor.changes
    assert factor.touches
    assert factor.touches <= ALL_PHASES


@pytest.mark.parametrize("made", PLANNED.values(), ids=PLANNED)
def test_a_level_takes_effect_in_the_settings(made: Contrast) -> None:
    """An arm made for a level has that level, and its baseline has the run's own."""
    factor, level = made.levels[0]

    assert level.value == factor.current(made.treatment.settings.run)
    assert factor.current(QUICK.run) == factor.current(made.baseline.settings.run)


@pytest.mark.parametrize("made", PLANNED.values(), ids=PLANNED)
def test_arms_differ_in_the_factor_alone(made: Contrast) -> None:
    """Between the two arms nothing differs but what the level overrides."""
    before, after = flat(to_plain(made.baseline.settings)), flat(to_plain(made.treatment.settings))
    differing = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}

    assert [] == sorted(
        k for k in differing if not any(k == o or k.startswith(o + ".") for o in made.levels[0][1].overrides)
    )
    assert differing


@pytest.mark.parametrize("made", PLANNED.values(), ids=PLANNED)
def test_every_level_can_be_checked_in_the_trial(made: Contrast) -> None:
    """A treatment says what the trial must observe, so that a change without effect is never judged."""
    assert made.expects


def test_overrides_make_the_treatment() -> None:
    """What a verdict carries is enough to make the treatment from the run's settings."""
    for made in PLANNED.values():
        assert made.treatment.settings == override(QUICK, made.overrides), made.name


def test_persistent_workers_get_workers_on_both_sides() -> None:
    """A factor that needs loader workers is compared with and without it, at the same number of workers."""
    made = PLANNED["dataloader_persistent_workers=true"]
    workers = [arm.settings.training("dataloader_num_workers") for arm in (made.baseline, made.treatment)]

    assert [2, 2] == workers
    assert "baseline with dataloader_num_workers=2" == made.baseline.label


def test_a_level_that_the_run_already_has_is_not_tested() -> None:
    """Comparing the baseline with itself would cost time and say nothing."""
    already = override(QUICK, {"training_arguments.dataloader_num_workers": 2})
    names = [c.name for c in plan(already, "data_loading", GPU)]

    assert "dataloader_num_workers=1" in names
    assert "dataloader_num_workers=2" not in names


def test_a_matrix_holds_every_combination_but_the_baseline() -> None:
    """Checkpointing on and off by batch 4, 8 and 16: five cells beside the baseline, each once."""
    levels = {"gradient_checkpointing": [False], "per_device_train_batch_size": [8, 16]}
    settings = override(QUICK, {"gradient_checkpointing": levels})
    names = [c.name for c in matrix(settings, "gradient_checkpointing", CROSSED["gradient_checkpointing"], GPU)]

    assert {
        "gradient_checkpointing=false",
        "per_device_train_batch_size=8",
        "per_device_train_batch_size=16",
        "gradient_checkpointing=false + per_device_train_batch_size=8",
        "gradient_checkpointing=false + per_device_train_batch_size=16",
    } == set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ({"dataloader_pin_memory": False}, "pinned memory needs a CUDA device"),
        ({"optim": "paged_adamw_8bit"}, "a paged optimizer needs a CUDA device"),
        ({"precision": "fp16"}, "fp16 training needs a CUDA device"),
    ],
)
def test_what_a_cpu_cannot_show_is_not_testable_there(level: dict[str, object], words: str) -> None:
    """On a CPU the reader is told why; on a GPU it is tested, unless the run stays on the CPU."""
    on_cpu = override(QUICK, {"training_arguments.use_cpu": True})

    assert contrast(QUICK, GPU, **level).untestable is None
    assert words in contrast(QUICK, CPU, **level).untestable
    assert words in contrast(on_cpu, GPU, **level).untestable


@pytest.mark.parametrize(
    ("changes", "levels", "words"),
    [
        ({"peft": None}, {"lora_r": [4]}, "the run trains no LoRA adapter"),
        ({"peft": None}, {"weights": ["16bit", "4bit"]}, "quantised weights need LoRA"),
        ({}, {"bnb_4bit_quant_type": ["nf4"]}, "the run has no 4-bit weights"),
        ({}, {"gradient_accumulation_steps": [3]}, "a batch of 4 samples can't be accumulated in 3"),
        ({}, {"eval_steps": [50]}, "the run never evaluates"),
        (
            {"training_arguments.optim": "adamw_torch_fused"},
            {"foreach": [True]},
            "adamw_torch_fused takes no foreach",
        ),
        ({"training_arguments.optim": "adafactor"}, {"foreach": [True]}, "adafactor takes no foreach"),
        ({"training_arguments.optim": "adafactor"}, {"fused": [True]}, "adafactor has no fused form"),
        ({}, {"fused": [True]}, "AdamW's fused form is optim: adamw_torch_fused"),
        ({"model.dtype": "bfloat16"}, {"precision": ["fp32"]}, "the products are still bfloat16"),
        ({}, {"attn_implementation": ["flash_attention_2"]}, "flash attention computes in 16 bit only"),
    ],
)
def test_what_a_run_cannot_have_is_refused_before_any_trial(changes: dict, levels: dict, words: str) -> None:
    """A factor that these settings can't have on any machine is an error in the parameter file, with the reason."""
    (problem,) = check_levels(override(QUICK, NOTHING | changes | {"compute": levels}), "my.yaml")

    assert words in problem
    assert f"compute.{next(iter(levels))}[" in problem


IN_FOUR_BITS = {"quantization": {"load_in_4bit": True}}


@pytest.mark.parametrize(
    ("changes", "one", "other"),
    [
        ({}, {"gradient_checkpointing": False}, {"every_n_layers": 2}),
        ({}, {"gradient_checkpointing": False}, {"use_reentrant": True}),
        (IN_FOUR_BITS, {"weights": "16bit"}, {"bnb_4bit_use_double_quant": True}),
        (IN_FOUR_BITS, {"weights": "8bit"}, {"bnb_4bit_quant_type": "nf4"}),
        ({}, {"per_device_train_batch_size": 16}, {"gradient_accumulation_steps": 2}),
        (
            {"training_arguments.dataloader_num_workers": 2},
            {"dataloader_num_workers": 0},
            {"dataloader_persistent_workers": True},
        ),
        ({}, {"padding": "packing"}, {"train_sampling_strategy": "group_by_length"}),
    ],
)
def test_changes_that_undo_each_other_are_not_had_together(changes: dict, one: dict, other: dict) -> None:
    """Each can be tested in this run, and the search never joins them, in whatever order."""
    settings = override(QUICK, changes)
    levels = [contrast(settings, **level).levels[0] for level in (one, other)]

    assert clash(settings, levels, GPU)
    assert clash(settings, levels[::-1], GPU)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"gradient_checkpointing": False}, {"per_device_train_batch_size": 16}),
        ({"every_n_layers": 2}, {"per_device_train_batch_size": 16}),
        ({"dataloader_num_workers": 1}, {"dataloader_persistent_workers": True}),
        ({"save_steps": "no"}, {"logging_steps": 100}),
        ({"precision": "bf16"}, {"weights": "4bit"}),
        ({"weights": "16bit"}, {"optim": "adamw_bnb_8bit"}),
        ({"torch_compile_mode": "reduce-overhead"}, {"padding": "max_length"}),
        ({"tf32": True}, {"torch_compile": True}),
    ],
)
def test_changes_that_bear_each_other_are_had_together(one: dict, other: dict) -> None:
    """What can be trained together is a candidate."""
    assert clash(QUICK, [contrast(QUICK, **level).levels[0] for level in (one, other)], GPU) is None


def test_a_new_baseline_lists_what_it_can_have() -> None:
    """What was adopted may end what else was listed: formats of 4-bit weights go with the 4-bit weights."""
    levels = {"weights": ["16bit"], "bnb_4bit_use_double_quant": [True], "optim": ["sgd"]}
    listed = override(QUICK, NOTHING | IN_FOUR_BITS | {"compute": levels})
    adopted = contrast(listed, weights="16bit").treatment.settings

    assert check_levels(adopted, "my.yaml")
    assert [] == check_levels(without_refused(adopted), "my.yaml")
    assert {"weights", "optim"} == set(without_refused(adopted).compute)


def test_a_tracker_that_trials_leave_out_is_not_judged() -> None:
    """Of a run that reports to a service alone, switching it off would compare two equal trials."""
    reported = override(QUICK, {"training_arguments.report_to": ["comet_ml"]})

    assert "comet_ml" in contrast(reported, report_to="none").unmet
    assert contrast(QUICK, report_to="tensorboard").unmet is None


def test_a_factor_that_must_never_change_exists(quick: Settings) -> None:
    """A slip of the pen in `allow.never` would let the factor into the final configuration."""
    (problem,) = check_levels(override(quick, {"allow.never": ["gradient_checkpoint"]}), "my.yaml")

    assert "my.yaml: allow.never[0]: no such factor. Did you mean 'gradient_checkpointing'?" == problem


def test_a_combination_means_what_its_costliest_part_means() -> None:
    """Tokenising once is exact, a longer batch is not, so both together are not."""
    both = contrast(QUICK, tokenize="once", per_device_train_batch_size=8)

    assert (Meaning.EXACT, Meaning.SEMANTICS) == (contrast(QUICK, tokenize="once").meaning, both.meaning)


def test_a_combination_touches_what_its_parts_touch() -> None:
    """Only phases that no part can touch remain as controls."""
    both = contrast(QUICK, dataloader_pin_memory=False, optim="adamw_torch_fused")

    assert {"data", "host_to_device", "optimizer"} == both.touched("cuda")


def test_a_given_value_yields_to_a_chosen_one() -> None:
    """Persistent workers together with one worker: the treatment has one worker, as chosen."""
    levels = [
        (CATALOGUE[n], CATALOGUE[n].level(v, QUICK.run))
        for n, v in (("dataloader_persistent_workers", True), ("dataloader_num_workers", 1))
    ]
    made = combine(QUICK, levels, GPU)

    assert 1 == made.treatment.settings.training("dataloader_num_workers")


@pytest.mark.parametrize("path", PARAMS, ids=lambda p: p.stem)
def test_the_levels_of_the_parameter_files_can_be_tested(path: Path) -> None:
    """Every level in params/ is one that its factor takes, in a combination that can be."""
    loaded = load(path)

    assert [] == check_levels(loaded.settings, path.name)


@pytest.mark.parametrize(
    ("levels", "key", "words"),
    [
        ({"dataloader_num_worker": [1]}, "dataloader_num_worker", "Did you mean 'dataloader_num_workers'?"),
        ({"dataloader_num_workers": [1, -1]}, "dataloader_num_workers[1]", "at least 0, found -1"),
        ({"dataloader_num_workers": [True]}, "dataloader_num_workers[0]", "found True (true or false)"),
        ({"dataloader_num_workers": ["2"]}, "dataloader_num_workers[0]", "found '2' (a text)"),
        ({"dataloader_pin_memory": ["yes"]}, "dataloader_pin_memory[0]", "expected true or false"),
        ({"padding": ["shortest"]}, "padding[0]", "longest, max_length, packing, found 'shortest'"),
        ({"optim": [["sgd"]]}, "optim[0]", "transformers has no optimizer"),
        ({"optim": [8]}, "optim[0]", "transformers has no optimizer 8 (a whole number)"),
        ({"optim": ["adamw_torh"]}, "optim[0]", "Did you mean 'adamw_torch'?"),
        ({"max_length": [4096]}, "max_length[0]", "beyond the model's max_position_embeddings (1024)"),
    ],
)
def test_a_level_that_cannot_be_is_refused(quick: Settings, levels: dict, key: str, words: str) -> None:
    """A level that its factor can't take is one message with the file, the key, what was found and what is allowed."""
    (problem,) = check_levels(override(quick, NOTHING | {"data_loading": levels}), "my.yaml")

    assert problem.startswith("my.yaml: data_loading." + key)
    assert words in problem


@pytest.mark.parametrize(
    ("switched_on", "factor", "wanted", "never"),
    [
        ({"dataloader_num_workers": 2}, "dataloader_num_workers", 0, 0),
        ({"torch_empty_cache_steps": 1}, "torch_empty_cache_steps", None, 4),
        ({"gradient_checkpointing": True}, "gradient_checkpointing", False, True),
        ({"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"offload": True}}, "offload", False, True),
    ],
)
def test_what_a_run_has_switched_on_is_tried_without_it(
    switched_on: dict, factor: str, wanted: object, never: object
) -> None:
    """Workers that take the training's cores, a cache that is emptied in each step, checkpoints that are copied away:
    they are proposed to go. Where a run has none of it, nothing is proposed that can only cost time."""
    on = override(QUICK, {f"training_arguments.{name}": value for name, value in switched_on.items()}).run
    without = override(QUICK, {"training_arguments.gradient_checkpointing": False}).run
    proposed = CATALOGUE[factor].proposes

    assert wanted in proposed(on, GPU)
    assert never not in [one for one in proposed(without, GPU) if type(one) is type(never)]


def test_an_update_over_lists_is_proposed_where_there_is_none() -> None:
    """On a device PyTorch goes over lists by itself, so the trial would compare the run with itself."""
    plain = {"training_arguments.optim": "adamw_torch"}
    one_by_one = plain | {"optimizer_kwargs.foreach": False}
    proposed = CATALOGUE["foreach"].proposals

    assert [[True], []] == [proposed(override(QUICK, plain).run, machine) for machine in (CPU, GPU)]
    assert [True] == proposed(override(QUICK, one_by_one).run, GPU)


@pytest.mark.parametrize("now", [8, 64])
def test_a_batch_of_an_evaluation_is_proposed_larger(now: int) -> None:
    """Its hypothesis is that small batches cost time, so a smaller one is none to try."""
    evaluating = {"training_arguments.eval_strategy": "epoch", "training_arguments.per_device_eval_batch_size": now}
    run = override(QUICK, evaluating).run

    assert CATALOGUE["per_device_eval_batch_size"].proposals(run, GPU) == [2 * now]


@pytest.mark.parametrize(("objects", "meaning"), [((), Meaning.EXACT), (("batch_norm",), Meaning.SEMANTICS)])
def test_layers_that_are_computed_twice_count_their_batch_twice(objects: tuple[str, ...], meaning: Meaning) -> None:
    """Statistics of batch normalisation are updated in each forward pass, the second one of checkpointing too."""
    factor, run = CATALOGUE["gradient_checkpointing"], Run(values={}, objects=frozenset({"model", *objects}))

    assert meaning is factor.meaning_of(factor.level(False, run))
