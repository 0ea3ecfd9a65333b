//! The parts that all charts share: text, and colours that suit light and dark pages.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The surface of one chart.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Of the drawing library.
pub(crate) type Drawn = Result<(), Box<dyn std::error::Error>>;

// Three tones that `THEME` replaces by those of the reader's page; alone they can be read on both.
const INK: RGBColor = RGBColor(0x6e, 0x77, 0x81);
/// Lines that only guide the eye.
pub(crate) const FAINT: RGBColor = RGBColor(0xb0, 0xb6, 0xbc);
/// Lines that say something.
pub(crate) const FIRM: RGBColor = RGBColor(0x8b, 0x94, 0x9e);
const THEME: &str = "<style>text{fill:#1f2328}\
    [stroke=\"#B0B6BC\"]{stroke:#d8dde2}[stroke=\"#8B949E\"]{stroke:#59636e}\
    @media (prefers-color-scheme:dark){text{fill:#e6edf3}\
    [stroke=\"#B0B6BC\"]{stroke:#30363d}[stroke=\"#8B949E\"]{stroke:#9aa4af}}</style>";

/// The drawing with the tones of the reader's page.
pub(crate) fn themed(mut svg: String) -> String {
    // After the opening tag.
    let at = svg
        .find("<svg")
        .and_then(|start| Some(start + svg[start..].find('>')? + 1));
    svg.insert_str(at.unwrap_or(0), THEME);
    svg
}

/// Writes `text` beside, before or around `at`.
pub(crate) fn write(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, side: HPos) -> Drawn {
    let style = ("sans-serif", size)
        .into_font()
        .color(&INK)
        .pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}
