"""Tables whose headers are in another language than English."""

from __future__ import annotations

import pytest

from slowstep.audit import Audit, FindingKind, audit
from slowstep.audit.read.languages import in_english
from slowstep.settings.load import validate


def report(table: str) -> Audit:
    """Audit a table by itself."""
    return audit(validate({"name": "own", "reported": {"table": table}}, "own"))


@pytest.mark.parametrize(
    "header",
    [
        "Konfiguration;Batchgröße;Schrittzeit (ms);Beispiele/s",
        "Lauf;Batchgröße pro GPU;Zeit pro Schritt (ms);Beispiele pro Sekunde",
        "exécution;taille de lot;temps par étape (ms);échantillons/s",
        "essai;taille de batch;durée d'un pas (ms);exemples par seconde",
        "ejecución;tamaño de lote;tiempo por paso (ms);muestras por segundo",
        "execução;tamanho do lote;tempo por passo (ms);amostras/s",
        "configurazione;dimensione batch;tempo per passo (ms);campioni/s",
        "設定;バッチサイズ;ステップ時間（ミリ秒）;サンプル/秒",
        "配置;批大小;每步时间(毫秒);样本/秒",
        "설정;배치 크기;스텝 시간 (ms);샘플/초",
    ],
)
def test_headers_are_read_in_other_languages(header: str) -> None:
    found = report(f"{header}\nbase;16;412,5;38,8\nbf16;16;231,0;69,3\n")

    assert pytest.approx([0.4125, 0.231]) == [run.given["seconds_per_step"].middle for run in found.runs]
    assert [38.8, 69.3] == [run.given["samples_per_second"].middle for run in found.runs]
    assert not found.findings


def test_points_part_thousands_where_commas_are_decimal_points() -> None:
    table = "| Lauf | Zeit pro Schritt (s) | Token/s |\n|---|---|---|\n| a | 1,84 | 8.904 |\n| b | 1,21 | 13.540 |\n"
    found = report(table)

    assert [8904, 13540] == [run.given["tokens_per_second"].middle for run in found.runs]


def test_commas_in_a_column_that_is_not_read_tell_how_numbers_are_written() -> None:
    """A whole column of them is of decimals, unlike one list of devices."""
    table = "| run | Foo | tokens/s |\n|---|---|---|\n| a | 1,84 | 8.904 |\n| b | 1,21 | 13.540 |\n"

    assert [8904, 13540] == [run.given["tokens_per_second"].middle for run in report(table).runs]


def test_figures_in_lines_are_read_in_other_languages() -> None:
    lines = "| Schrittzeit | 812 ms | 268 ms |\n| Durchsatz | 78,8 Bilder/s | 239 Bilder/s |\n"
    table = f"| | fp32 | bf16 |\n|---|---|---|\n{lines}"

    assert {"fp32": 78.8, "bf16": 239} == {r.label: r.given["samples_per_second"].middle for r in report(table).runs}


def test_a_speed_up_in_another_language_is_held_against_its_figures() -> None:
    table = "| Lauf | Durée d'une époque (min) | Accélération |\n|---|---|---|\n| a | 90 | 1,0 |\n| b | 60 | 1,95 |\n"

    assert ["b"] == [f.where for f in report(table).findings if f.kind is FindingKind.ARITHMETIC]


@pytest.mark.parametrize(
    "text", ["RTX Pro 6000 (img/s)", "step time (ms)", "pas", "samples/s", "per GPU", "Modulo", "temperature", "Batch"]
)
def test_english_words_and_names_stay(text: str) -> None:
    """Little words such as `pro` are turned beside others alone."""
    assert text == in_english(text)


def test_names_of_runs_stay() -> None:
    found = report("Lauf,s/it\nSchritt,1.2\nZeit,1.4\n")

    assert ["Schritt", "Zeit"] == [run.label for run in found.runs]


@pytest.mark.parametrize("name", ["Zeit", "time"])
def test_columns_takes_a_header_in_both_languages(name: str) -> None:
    own = {"table": "Lauf,Zeit\na,1.2\nb,1.4\n", "columns": {name: "s/step"}}
    found = audit(validate({"name": "own", "reported": own}, "own"))

    assert [1.2, 1.4] == [run.given["seconds_per_step"].middle for run in found.runs]
