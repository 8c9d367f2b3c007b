"""Tables in the ways of other countries: headers in other languages, and numbers with decimal commas.

Headers, units behind numbers and the names of figures in the first column are turned, and the words of rows stay. What
has no word here stays as well, so that it is asked about like any other header that is not known.

One number that can be read in no other way tells how all of them are written, unless another one speaks against it.
Where none does, the comma is asked about. Where no semicolons part the cells, as a spreadsheet with decimal commas
writes them, that one is a figure by its header, or stands in a column of such numbers: `0,1` may be a list of devices.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from slowstep.audit.figures import COMMA, comma
from slowstep.audit.read.columns import MEASURED, column, is_number, plain
from slowstep.audit.read.measures import is_measure
from slowstep.audit.read.source_text import Unreadable
from slowstep.audit.relations import COUNTS

Cell = tuple[str, int, int]

WORDS = {
    # German, French, Spanish, Portuguese, Italian
    "batch size": "batchgröße|batch-größe|stapelgröße|taille d[eu] (?:lot|batch)|taille des lots|"
    "tama(?:ño|nho) d(?:e|o|el) (?:lote|batch)|dimensione (?:del )?(?:batch|lotto)",
    "batch": "stapel|lote",
    "step time": "schrittzeit|schrittdauer|zeit pro schritt",
    "epoch time": "epochenzeit|epochendauer",
    "total time": "gesamtzeit|gesamtdauer|temps total|durée totale|tiempo total|tempo totale?",
    "training time": "trainingszeit|trainingsdauer|temps d['’]entra[iî]nement|tiempo de entrenamiento|"
    "tempo di addestramento|tempo de treinamento",
    "runtime": "laufzeit",
    "time saved": "zeitersparnis",
    "gpu-hours": "gpu-stunden|heures[- ]gpu|gpu-heures|gpu-horas|horas[- ]gpu|ore[- ]gpu|gpu-ore",
    "number of": "anzahl(?: der)?|nombre d[e']|número de|numero di",
    "time": "zeit|dauer|temps|durée|tiempo|duraci[oó]n|tempo|duração|durata",
    "steps": "schritten?|étapes|pasos|passos|passi",
    "step": "schritt|étape|paso|passo",
    "iterations": "iterationen|itérations|iteraciones|iterações|iterazioni",
    "samples": "beispielen?|proben|échantillons|exemples|muestras|ejemplos|amostras|exemplos|campioni|esempi",
    "sample": "beispiel|probe|échantillon|exemple|muestra|ejemplo|amostra|exemplo|campione|esempio",
    "images": "bildern?|imágenes|imagens|immagini",
    "image": "bild|imagen|imagem|immagine",
    "tokens": "jetons|fichas",
    "epochs": "epochen|époques|épocas",
    "epoch": "epoche|époque|época|epoca",
    "seconds": "sekunden|secondes|segundos|secondi",
    "second": "sekunde|seconde|segundo|secondo",
    "minutes": "minuten|minutos|minuti",
    "hours": "stunden|heures|horas",
    "hour": "stunde|heure|hora",
    "throughput": "durchsatz|débit|rendimiento|vazão",
    "speed": "geschwindigkeit|vitesse|velocidad|velocidade|velocità",
    "speedup": "beschleunigung|accélération|aceleraci[oó]n|aceleração|accelerazione",
    "efficiency": "effizienz|efficacité|eficiencia|eficiência|efficienza",
    "memory": "grafikspeicher|speicher|mémoire|memoria|memória",
    "cost": "kosten|coût|coste|costo|custo",
    "price": "preis|prix|precio|preço|prezzo",
    "run": "lauf|exécution|ejecución|execução|esecuzione",
    "configuration": "konfiguration|configuración|configuração|configurazione",
    "model": "modell|modèle|modelo|modello",
    "device": "gerät",
    "total": "gesamt|totale",
}
"""The English words, each with those of languages that part their words."""

JOINED = {
    # Chinese, Japanese, Korean
    "batch size": "批量大小|批次大小|批处理大小|批大小|バッチサイズ|배치 ?크기|배치 ?사이즈",
    "step time": "每步时间|单步时间|每步耗时|单步耗时|步时间|ステップ時間|스텝 ?시간",
    "epoch time": "每轮时间|每轮耗时|エポック時間|에폭 ?시간",
    "total time": "总时间|总耗时|合計時間|총 ?시간",
    "training time": "训练时间|训练耗时|学習時間|학습 ?시간",
    "samples/s": "每秒样本数|每秒样本",
    "tokens/s": "每秒token数|每秒tokens?",
    "steps/s": "每秒步数",
    "gpus": "gpu数量?|卡数|gpu ?수",
    "speedup": "加速比|高速化率|高速化|速度向上|가속비|가속",
    "throughput": "吞吐量|吞吐率|吞吐|スループット|처리량",
    "configuration": "配置|设置|設定|条件|構成|설정|구성",
    "memory": "显存占用|显存|内存|メモリ|메모리",
    "ms": "毫秒|ミリ秒|밀리초",
    "samples": "样本|サンプル|샘플",
    "steps": "ステップ|스텝|步",
    "images": "图片|图像|画像|이미지",
    "tokens": "トークン|토큰|令牌",
    "epoch": "轮次|エポック|에폭|轮",
    "min": "分钟",
    "h": "小时",
    "s": "秒|초",
    "per ": "每",
    "model": "模型|モデル|모델",
    "cost": "成本|费用|コスト|비용",
    "time": "时间|耗时|時間|시간",
    "name": "名称|名前|이름",
    "run": "实验|実験|실험",
}
"""The same for languages that do not part their words."""

BETWEEN = {
    "per": "pro|je|par|por|d['’]une?|de l['’]|d[eu]l?|di|al?la|al",
    "step": "pas",
    "hours": "ore",
    "batch": "lot",
}
"""Words that are also English ones or names, and are turned beside one of the others alone."""

FEW = 100
"""The most lines of a table that has a figure in each of them."""

WIDE = str.maketrans("（）／：％", "()/:%")


FILE_DELIMITERS = (";", "|")
"""What parts the cells of files in which a comma is no delimiter."""

SIGN = r"[~≈<>]?\s?[-+−]?"
WITH_COMMA = re.compile(rf"\s*{SIGN}(?P<whole>\d{{1,3}}(?:\.\d{{3}})+|\d+),(?P<behind>\d+)(?![\d,.])")
WITH_POINT = re.compile(rf"\s*{SIGN}(?:0\.\d+|\d{{4,}}\.\d+|\d+\.(?:\d{{1,2}}|\d{{4,}}))[^\d.,]*")
THOUSANDS_BY_COMMAS = re.compile(rf"\s*{SIGN}\d{{1,3}}(?:,\d{{3}})+(?:\.\d+|,\d{{3}})")
NUMBER = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?(?![\d,]|\.\d)")


def _patterns(words: dict[str, str], parted: bool = True) -> list[tuple[str, re.Pattern[str]]]:
    """Return English words, each with what finds those that it stands for."""
    around = (r"(?<![^\W_])(?:{})(?![^\W_])" if parted else "(?:{})").format
    return [(english, re.compile(around(forms), re.IGNORECASE)) for english, forms in words.items()]


OF_WORDS, OF_JOINED, OF_BETWEEN = _patterns(WORDS), _patterns(JOINED, parted=False), _patterns(BETWEEN)


@functools.lru_cache(maxsize=4096)
def in_english(text: str) -> str:
    """Return a header or a unit with English words; one without a word of another language as it is."""
    said = text.translate(WIDE)
    found = joined = said
    for english, pattern in OF_JOINED:
        joined = pattern.sub(f" {english} ", joined)
    if joined != said:
        found = re.sub(r"\s*/\s*", "/", " ".join(joined.split())).replace("( ", "(").replace(" )", ")")
    for english, pattern in OF_WORDS:
        found = pattern.sub(english, found)
    if found == said:
        return text
    for english, pattern in OF_BETWEEN:
        found = pattern.sub(lambda at, own=english: own + " " * at[0].endswith(("'", "’")), found)
    return found


def with_english_words(table: Sequence[Sequence[Cell]]) -> Sequence[Sequence[Cell]]:
    """Return a table with English words in its headers and the units of its cells; an English one as it is.

    In a table with figures in its lines, the first cells of these are headers. Other ones name runs, and stay.
    """
    if not table:
        return table
    header, *body = table
    turned = [_turned(cell) for cell in header]
    firsts = [_turned(row[0]) if row and len(body) <= FEW else None for row in body]
    in_lines = any(_measures(first) for first in firsts if first) and not any(map(_measures, turned))
    if turned == list(header) and not in_lines:
        return table
    named = zip(body, firsts, strict=True)
    return [turned, *([first if first and in_lines else row[0], *map(_number, row[1:])] for row, first in named)]


def _measures(cell: Cell) -> bool:
    return column(cell[0], set()).kind in MEASURED


def _turned(cell: Cell) -> Cell:
    return (in_english(cell[0]), *cell[1:])


def _number(cell: Cell) -> Cell:
    """Return a cell with a number and an English unit; any other one as it is."""
    return _turned(cell) if any(map(str.isalpha, cell[0])) and is_number(cell[0]) else cell


def with_decimal_points(rows: Sequence[list[Cell]], delimiter: str, source: str) -> list[list[Cell]]:
    """Return the rows with decimal points in place of commas. A file whose cells commas part has none.

    Unreadable for a comma that could be either where semicolons or bars part the cells of a file.
    """
    if delimiter == ",":
        return list(rows)
    texts = [plain(text) for row in rows for text, *_ in row]
    telling = texts if delimiter == ";" else list(_figures(rows))
    if any(map(_is_certain, telling)) and not any(map(_speaks_against, texts)):
        return [[(_with_points(text), *place) for text, *place in row] for row in rows]
    for row in rows if delimiter in FILE_DELIMITERS else ():
        for text, line, at in row:
            if COMMA.match(text):
                raise Unreadable(source, line, at, comma(text))
    return list(rows)


def _figures(rows: Sequence[list[Cell]]) -> Iterator[str]:
    """Yield the cells of what is measured by the header of their column, the first cell of their line or their unit.

    A column whose numbers all have a comma, one of them with two digits behind it, is measured whatever its header is.
    """
    header, *body = rows or [[]]
    wide = [[plain(row[i][0]) for row in body if i < len(row)] for i in range(len(header))]
    named = [_is_measured(text) or _are_decimals(cells) for (text, *_), cells in zip(header, wide, strict=True)]
    for row in body:
        in_line = bool(row) and _is_measured(row[0][0])
        for i, (text, *_) in enumerate(row):
            if in_line or (i < len(named) and named[i]) or is_measure(text):
                yield plain(text)


def _are_decimals(cells: Sequence[str]) -> bool:
    return len(cells) > 1 and all(map(_is_certain, cells)) and any(re.search(r",\d\d\b", text) for text in cells)


def _is_measured(header: str) -> bool:
    held = column(header, set())
    return held.kind in MEASURED and held.name not in COUNTS


def _is_certain(text: str) -> bool:
    """Return whether the comma of a number can part no thousands: `1,5`, `0,281`, `2048,125`, `1.234,567`."""
    found = WITH_COMMA.match(text)
    if not found:
        return False
    whole, behind = found["whole"], found["behind"]
    return len(behind) != 3 or whole.startswith("0") or len(whole) > 3


def _speaks_against(text: str) -> bool:
    """Return whether a number has a decimal point, or thousands that commas part."""
    return bool(WITH_POINT.fullmatch(text) or THOUSANDS_BY_COMMAS.match(text))


def _with_points(text: str) -> str:
    """Return a cell that begins with a number with points in place of the commas of its numbers."""
    if not re.match(rf"[\s*_]*{SIGN}\d", text):
        return text
    return NUMBER.sub(lambda found: found[0].replace(".", "").replace(",", "."), text)
