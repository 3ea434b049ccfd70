"""Native charts and tables, which people can edit in PowerPoint. For layouts.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE, XL_LABEL_POSITION, XL_LEGEND_POSITION
from pptx.enum.dml import MSO_THEME_COLOR
from pptx.enum.text import MSO_ANCHOR, PP_ALIGN
from pptx.util import Inches, Pt
from writing import COLOURS, SMALL, describe

if TYPE_CHECKING:
    from writing import Page, Place

KINDS = {
    "column": XL_CHART_TYPE.COLUMN_CLUSTERED,
    "bar": XL_CHART_TYPE.BAR_CLUSTERED,
    "line": XL_CHART_TYPE.LINE_MARKERS,
    "pie": XL_CHART_TYPE.PIE,
    "stacked_column": XL_CHART_TYPE.COLUMN_STACKED,
    "stacked_bar": XL_CHART_TYPE.BAR_STACKED,
    "area": XL_CHART_TYPE.AREA_STACKED,
}
ACCENTS = [getattr(MSO_THEME_COLOR, f"ACCENT_{number}") for number in range(1, 7)]
FEW_POINTS = 12
"""So many values get their number written beside them."""


def add_chart(page: Page, spec: dict[str, Any], place: Place, alt: str) -> None:
    """spec: "chart" of the outline. alt: what is read out; made from the data where it is ""."""
    data = CategoryChartData(number_format=spec.get("format", "General"))
    data.categories = [str(each) for each in spec["categories"]]
    for series in spec["series"]:
        data.add_series(str(series["name"]), series["values"])
    frame = page.slide.shapes.add_chart(KINDS[spec["type"]], *(Inches(each) for each in place), data)
    describe(frame, "Chart", alt or described(spec))
    chart = frame.chart
    chart.has_title = False
    chart.font.size = Pt(14)
    chart.font.color.theme_color = COLOURS["text"]
    several = len(spec["series"]) > 1 or spec["type"] == "pie"
    chart.has_legend = several
    if several:
        chart.legend.position = XL_LEGEND_POSITION.BOTTOM
        chart.legend.include_in_layout = False
    _colour(chart, spec["type"])
    if "highlight" in spec:
        _highlight(chart.plots[0].series[0], spec["categories"].index(spec["highlight"]), len(spec["categories"]))
    _labels(chart, spec)
    if spec["type"] != "pie":
        _axes(chart, spec)


def described(spec: dict[str, Any]) -> str:
    """The chart in words, from its numbers."""
    unit = f" in {spec['unit']}" if spec.get("unit") else ""
    parts = []
    for series in spec["series"]:
        pairs = zip(spec["categories"], series["values"], strict=True)
        parts.append(f"{series['name']}: " + ", ".join(f"{name} {'none' if v is None else v}" for name, v in pairs))
    return f"{spec['type'].replace('_', ' ').capitalize()} chart{unit}. " + "; ".join(parts) + "."


def _colour(chart: Any, kind: str) -> None:
    plot = chart.plots[0]
    if kind == "pie":
        for number in range(len(list(plot.categories))):
            point = plot.series[0].points[number].format.fill
            point.solid()
            point.fore_color.theme_color = ACCENTS[number]
        return
    for number, series in enumerate(plot.series):
        if kind == "line":
            series.smooth = False
            series.format.line.width = Pt(2.5)
            series.format.line.color.theme_color = ACCENTS[number]
            series.marker.format.fill.solid()
            series.marker.format.fill.fore_color.theme_color = ACCENTS[number]
            series.marker.format.line.color.theme_color = ACCENTS[number]
        else:
            series.format.fill.solid()
            series.format.fill.fore_color.theme_color = ACCENTS[number]
    if hasattr(plot, "gap_width") and kind != "area":
        plot.gap_width = 60


def _highlight(series: Any, which: int, count: int) -> None:
    """One bar in the accent, the others in a pale grey."""
    for number in range(count):
        if number != which:
            fill = series.points[number].format.fill
            fill.solid()
            fill.fore_color.theme_color = COLOURS["muted"]
            fill.fore_color.brightness = 0.5


def _labels(chart: Any, spec: dict[str, Any]) -> None:
    values = sum(len(series["values"]) for series in spec["series"])
    if values > FEW_POINTS or spec["type"] == "area":
        return
    plot = chart.plots[0]
    plot.has_data_labels = True
    labels = plot.data_labels
    labels.show_value = True
    labels.font.size = Pt(SMALL)
    labels.number_format, labels.number_format_is_linked = spec.get("format", "General"), False
    if spec["type"] in ("column", "bar", "pie"):
        labels.position = XL_LABEL_POSITION.OUTSIDE_END
    elif spec["type"] == "line":
        labels.position = XL_LABEL_POSITION.ABOVE
    else:  # in the middle of a coloured piece
        labels.font.color.theme_color = COLOURS["light"]


def _axes(chart: Any, spec: dict[str, Any]) -> None:
    chart.category_axis.format.line.color.theme_color = COLOURS["muted"]
    chart.category_axis.has_major_gridlines = False
    if spec["type"] in ("bar", "stacked_bar"):
        chart.category_axis.reverse_order = True  # the first one on top, as it is read
    axis = chart.value_axis
    axis.has_major_gridlines = not chart.plots[0].has_data_labels
    axis.visible = not chart.plots[0].has_data_labels
    if axis.has_major_gridlines:
        axis.major_gridlines.format.line.color.theme_color = MSO_THEME_COLOR.BACKGROUND_2
    values = [value for series in spec["series"] for value in series["values"] if value is not None]
    if spec["type"] != "line" and values and min(values) >= 0:
        axis.minimum_scale = 0  # the length of a bar is its value


def add_table(page: Page, columns: list[Any], rows: list[list[Any]], place: Place, alt: str) -> None:
    """Numbers stand to the right, in columns where every cell is one."""
    height = min(0.6, place[3] / (len(rows) + 1))
    spot = (place[0], place[1], place[2], height * (len(rows) + 1))
    frame = page.slide.shapes.add_table(len(rows) + 1, len(columns), *(Inches(each) for each in spot))
    describe(frame, "Table", alt or f"Table: {', '.join(str(each) for each in columns)}; {len(rows)} rows.")
    table = frame.table
    table.horz_banding = True
    for number, share in enumerate(_shares(columns, rows)):
        table.columns[number].width = Inches(place[2] * share)
    numeric = [all(_is_number(row[number]) for row in rows) for number in range(len(columns))]
    size = 18 if len(rows) <= 4 and len(columns) <= 4 else 16 if len(rows) <= 6 and len(columns) <= 5 else 14
    for at, row in enumerate([columns, *rows]):
        table.rows[at].height = Inches(height)
        for number, value in enumerate(row):
            _cell(page, table.cell(at, number), "" if value is None else str(value), size, at == 0, numeric[number])


def _shares(columns: list[Any], rows: list[list[Any]]) -> list[float]:
    """Of the width, by the longest text of each column, none below half of an equal share."""
    longest = [max(len(str(row[n])) for row in [columns, *rows]) for n in range(len(columns))]
    least = 0.5 * sum(longest) / len(longest)
    weights = [max(each, least) for each in longest]
    return [each / sum(weights) for each in weights]


def _cell(page: Page, cell: Any, text: str, size: int, head: bool, number: bool) -> None:
    cell.text = text
    cell.vertical_anchor = MSO_ANCHOR.MIDDLE
    cell.margin_top = cell.margin_bottom = Inches(0.03)
    cell.fill.solid()
    cell.fill.fore_color.theme_color = MSO_THEME_COLOR.TEXT_2 if head else MSO_THEME_COLOR.BACKGROUND_2
    paragraph = cell.text_frame.paragraphs[0]
    paragraph.alignment = PP_ALIGN.RIGHT if number else PP_ALIGN.LEFT
    for run in paragraph.runs:
        run.font.size = Pt(size)
        run.font.bold = head
        run.font.color.theme_color = COLOURS["light" if head and page.look.on(page.look.deep) == "lt1" else "text"]
        run._r.get_or_add_rPr().set("lang", page.language)


def _is_number(value: Any) -> bool:
    text = str(value).strip().lstrip("+-−€$£¥").rstrip("%€ ").replace(",", "").replace(" ", "")
    return isinstance(value, int | float) or text.replace(".", "", 1).isdigit()
