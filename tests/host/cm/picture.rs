// SPDX-License-Identifier: GPL-2.0

//! The picture of states on the page about connection management, of the same making as the table there.

use crate::diagram::{
    by_state,
    explore,
    Diagram,
    STATES, //
};
use std::fmt::Write;

const PICTURE: &str = include_str!("../../../Documentation/cm.svg");
const HEAD: &str = r##"<!-- SPDX-License-Identifier: GPL-2.0 -->
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1220 880" width="1220" height="880" font-family="sans-serif" font-size="13">
<title>The states of a connection</title>
<defs><marker id="tip" markerWidth="10" markerHeight="8" refX="9" refY="4" orient="auto"><path d="M0 0 10 4 0 8z" fill="#333"/></marker></defs>
<rect width="1220" height="880" fill="#fff"/>
"##;

/// Column and row of each of the states: what is the requester's alone on the left, and the responder's on the right.
const PLACES: &[u8; 2 * STATES.len()] = b"1000012021222302031304052425062616";
/// What a connection ends by is written into the boxes.
const ENDS: [&str; 4] = ["Idle", "DreqSent", "DreqRcvd", "Timewait"];
/// Of a box.
const WIDTH: i32 = 292;
const HEIGHT: i32 = 92;

/// Column and row of a state, and where its box is.
fn place(state: &str) -> (i32, i32, i32, i32) {
    let at = STATES.iter().position(|it| *it == state).unwrap();
    let [column, row] = [0, 1].map(|it| i32::from(PLACES[2 * at + it] - b'0'));
    (column, row, 66 + column * 398, 16 + row * 124)
}

/// An arrow, and where its text goes.
fn arrow(from: &str, to: &str) -> (String, i32, i32) {
    let ((column, row, x, y), (to_column, to_row, to_x, to_y)) = (place(from), place(to));
    let out = if column == 0 { -48 } else { 48 };
    if column == to_column && to_row == row + 1 {
        (
            format!("M{} {}V{to_y}", x + 60, y + HEIGHT),
            x + 60,
            y + 112,
        )
    } else if column == to_column && to_row == row - 1 {
        (
            format!("M{} {y}V{}", x + 200, to_y + HEIGHT),
            x + 200,
            y - 12,
        )
    } else if column == to_column {
        let (x, y, to_y) = (x + i32::from(column > 0) * WIDTH, y + 66, to_y + 26);
        let curve = format!("M{x} {y}C{0} {y} {0} {to_y} {x} {to_y}", x + out);
        (curve, x + out * 3 / 4, (y + to_y) / 2)
    } else {
        let left = i32::from(column < to_column) * WIDTH;
        let (x, to_x) = (x + left, to_x + WIDTH - left);
        // In the middle there is an end for each, and the text is beside the other box.
        let (y, to_y, parts) = match column {
            1 => (y + 20 + 8 * to_row, to_y + 14, (2, 3)),
            _ => (y + 62, to_y + 10 + 12 * row, (3, 2)),
        };
        let between = |a, b| (parts.0 * a + parts.1 * b) / 5;
        let text_y = between(y, to_y) + 4;
        (format!("M{x} {y}L{to_x} {to_y}"), between(x, to_x), text_y)
    }
}

fn picture(diagram: &Diagram) -> String {
    let (mut boxes, mut arrows) = (String::from(HEAD), String::new());
    for state in STATES {
        let (_, _, x, y) = place(state);
        let (inside, mut line) = (x + 10, y + 18);
        writeln!(boxes, r##"<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="#dbe9f9" stroke="#555"/>"##).unwrap();
        writeln!(
            boxes,
            r#"<text x="{inside}" y="{line}" font-weight="bold">{state}</text>"#
        )
        .unwrap();
        for (to, events) in by_state(&diagram[state].concat()) {
            if ENDS.contains(&to.as_str()) {
                line += 17;
                writeln!(
                    boxes,
                    r#"<text x="{inside}" y="{line}" font-size="11">{events} → {to}</text>"#
                )
                .unwrap();
            } else {
                let (path, x, y) = arrow(state, &to);
                writeln!(
                    arrows,
                    r##"<path d="{path}" fill="none" stroke="#333" marker-end="url(#tip)"/>"##
                )
                .unwrap();
                writeln!(arrows, r##"<text x="{x}" y="{y}" font-size="11" text-anchor="middle" stroke="#fff" stroke-width="4" paint-order="stroke">{events}</text>"##).unwrap();
            }
        }
    }
    boxes + &arrows + "</svg>\n"
}

#[test]
fn the_picture_shows_what_the_machine_does() {
    let want = picture(&explore());
    assert!(
        PICTURE == want,
        "put this into Documentation/cm.svg:\n{want}"
    );
}
