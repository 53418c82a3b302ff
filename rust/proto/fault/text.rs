// SPDX-License-Identifier: GPL-2.0

//! Rules as text: one to a line.
//!
//! ```text
//! ACTION DIRECTION [KEY=VALUE]...
//! clear
//! ```
//!
//! `ACTION` is `drop`, `duplicate`, `reorder`, `delay`, `corrupt` or `cut`; `DIRECTION` is `out` or `in`.
//!
//! | key | value | without it |
//! |---|---|---|
//! | `probability` | percent, with up to four decimals: `1%`, `0.25%` | `100%` |
//! | `after` | packets that pass first | 0 |
//! | `count` | packets that are struck at most | without end |
//! | `opcode` | of the BTH, as `VALUE` or `VALUE/MASK` | all |
//! | `qp` | the destination queue pair | all but 0 |
//! | `seed` | any number | 0 |
//! | `distance` | of `reorder`: packets that overtake, 1 to 255 | 3 |
//! | `time` | of `delay`: microseconds; of `reorder`: those until it gives up waiting | 1000 |
//! | `jitter` | of `delay`: microseconds that may be added | 0 |
//!
//! Numbers are decimal, or hexadecimal after `0x` with small letters. `#` begins a comment.

use super::{
    Action,
    Direction,
    Filter,
    Record,
    Rule,
    CERTAIN, //
};
use crate::time::Duration;
use core::fmt;
use wire::Qpn;

/// What a line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// All rules are to go.
    Clear,
    /// A rule is to be added.
    Add(Rule),
}

/// A line makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine;

/// The longest time, an hour, so that no packet stays for good.
const MAX_MICROS: u64 = 3_600_000_000;

/// Packets that overtake a reordered one, unless it says.
const DISTANCE: u8 = 3;

/// Microseconds, unless a rule says.
const TIME: u64 = 1000;

/// Reads a text: all its commands, or the first line that makes no sense.
pub fn parse(text: &str) -> impl Iterator<Item = Result<Command, BadLine>> + '_ {
    text.lines()
        .map(|line| cut(line, b'#').map_or(line, |(front, _)| front).trim())
        .filter(|line| !line.is_empty())
        .map(parse_line)
}

/// What stands before the first `mark`, and what behind it.
fn cut(text: &str, mark: u8) -> Option<(&str, &str)> {
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        if byte == mark {
            let front = text.len().saturating_sub(rest.len());
            return Some((text.get(..front)?, text.get(front.saturating_add(1)..)?));
        }
        rest = behind;
    }
    None
}

fn number(text: &str) -> Result<u64, BadLine> {
    let (digits, base) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let mut number = 0u64;
    for byte in digits.bytes() {
        let digit = match byte {
            b'0'..=b'9' => byte.wrapping_sub(b'0'),
            b'a'..=b'f' if base == 16 => byte.wrapping_sub(b'a').wrapping_add(10),
            _ => return Err(BadLine),
        };
        let shifted = number.checked_mul(base).ok_or(BadLine)?;
        number = shifted.checked_add(u64::from(digit)).ok_or(BadLine)?;
    }
    (!digits.is_empty()).then_some(number).ok_or(BadLine)
}

fn number_to(text: &str, most: u64) -> Result<u64, BadLine> {
    number(text).and_then(|number| (number <= most).then_some(number).ok_or(BadLine))
}

fn micros(text: &str) -> Result<Duration, BadLine> {
    let micros = number_to(text, MAX_MICROS)?;
    Ok(Duration::from_nanos(micros.wrapping_mul(1000)))
}

/// Percent with up to four decimals, in parts per million.
fn probability(text: &str) -> Result<u32, BadLine> {
    let percent = text.strip_suffix('%').ok_or(BadLine)?;
    let (whole, decimals) = cut(percent, b'.').unwrap_or((percent, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(decimals) || decimals.len() > 4 {
        return Err(BadLine);
    }
    let whole = number_to(whole, 100)?;
    let mut parts = number(decimals)?;
    for _ in decimals.len()..4 {
        parts = parts.wrapping_mul(10);
    }
    let all = whole.wrapping_mul(10_000).wrapping_add(parts);
    u32::try_from(all)
        .ok()
        .filter(|all| *all <= CERTAIN)
        .ok_or(BadLine)
}

fn opcode(text: &str) -> Result<(u8, u8), BadLine> {
    let (value, mask) = cut(text, b'/').unwrap_or((text, "0xff"));
    let byte = |text| number_to(text, 0xff).map(|byte| byte as u8);
    Ok((byte(value)?, byte(mask)?))
}

fn parse_line(line: &str) -> Result<Command, BadLine> {
    let mut words = line.split_ascii_whitespace();
    let verb = words.next().ok_or(BadLine)?;
    if verb == "clear" {
        return match words.next() {
            None => Ok(Command::Clear),
            Some(_) => Err(BadLine),
        };
    }
    let direction = match words.next() {
        Some("out") => Direction::Out,
        Some("in") => Direction::In,
        _ => return Err(BadLine),
    };
    let default = Duration::from_nanos(TIME.wrapping_mul(1000));
    let mut action = match verb {
        "drop" => Action::Drop,
        "duplicate" => Action::Duplicate,
        "reorder" => Action::Reorder {
            distance: DISTANCE,
            patience: default,
        },
        "delay" => Action::Delay {
            time: default,
            jitter: Duration::ZERO,
        },
        "corrupt" => Action::Corrupt,
        "cut" => Action::Cut,
        _ => return Err(BadLine),
    };
    let mut rule = Rule {
        action,
        filter: Filter {
            direction,
            opcode: (0, 0),
            qp: None,
        },
        probability: CERTAIN,
        after: 0,
        count: None,
        seed: 0,
    };
    for word in words {
        let (key, value) = cut(word, b'=').ok_or(BadLine)?;
        match (key, &mut action) {
            ("probability", _) => rule.probability = probability(value)?,
            ("after", _) => rule.after = number(value)?,
            ("count", _) => rule.count = Some(number(value)?),
            ("opcode", _) => rule.filter.opcode = opcode(value)?,
            ("qp", _) => {
                let most = u64::from(Qpn::MULTICAST.get());
                rule.filter.qp = Some(Qpn::new(number_to(value, most)? as u32));
            }
            ("seed", _) => rule.seed = number(value)?,
            ("distance", Action::Reorder { distance, .. }) => {
                *distance = number_to(value, u64::from(u8::MAX))? as u8;
                if *distance == 0 {
                    return Err(BadLine);
                }
            }
            ("time", Action::Reorder { patience: time, .. } | Action::Delay { time, .. }) => {
                *time = micros(value)?;
            }
            ("jitter", Action::Delay { jitter, .. }) => *jitter = micros(value)?,
            _ => return Err(BadLine),
        }
    }
    rule.action = action;
    Ok(Command::Add(rule))
}

/// Microseconds, rounded down.
fn in_micros(time: Duration) -> u64 {
    time.nanos().wrapping_div(1000)
}

/// As [`parse`] reads it.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.action {
            Action::Drop => "drop",
            Action::Duplicate => "duplicate",
            Action::Reorder { .. } => "reorder",
            Action::Delay { .. } => "delay",
            Action::Corrupt => "corrupt",
            Action::Cut => "cut",
        })?;
        f.write_str(match self.filter.direction {
            Direction::Out => " out",
            Direction::In => " in",
        })?;
        let (whole, parts) = (
            self.probability.wrapping_div(10_000),
            self.probability.wrapping_rem(10_000),
        );
        write!(f, " probability={whole}.{parts:04}%")?;
        if self.after != 0 {
            write!(f, " after={}", self.after)?;
        }
        if let Some(count) = self.count {
            write!(f, " count={count}")?;
        }
        let (value, mask) = self.filter.opcode;
        if mask != 0 {
            write!(f, " opcode={value:#04x}/{mask:#04x}")?;
        }
        if let Some(qp) = self.filter.qp {
            write!(f, " qp={:#x}", qp.get())?;
        }
        match self.action {
            Action::Reorder { distance, patience } => {
                write!(f, " distance={distance} time={}", in_micros(patience))?;
            }
            Action::Delay { time, jitter } => {
                write!(f, " time={} jitter={}", in_micros(time), in_micros(jitter))?;
            }
            _ => {}
        }
        write!(f, " seed={:#x}", self.seed)
    }
}

/// The rule, and as a comment what it has done.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, seen, struck } = self;
        write!(f, "{rule} # seen={seen} struck={struck}")
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_fault_text))]
mod tests {
    use super::*;

    fn one(line: &str) -> Option<Rule> {
        match parse(line).next() {
            Some(Ok(Command::Add(rule))) => Some(rule),
            _ => None,
        }
    }

    #[test]
    fn defaults() {
        let rule = Rule {
            action: Action::Drop,
            filter: Filter {
                direction: Direction::In,
                opcode: (0, 0),
                qp: None,
            },
            probability: CERTAIN,
            after: 0,
            count: None,
            seed: 0,
        };
        assert_eq!(one("drop in"), Some(rule));
        assert_eq!(one("  drop   in  # all of them"), Some(rule));
    }

    #[test]
    fn every_key() {
        let rule = one(
            "delay out probability=0.25% after=1 count=2 opcode=0x60/0xe0 qp=0x12 seed=7 time=5 jitter=6",
        );
        let expected = Rule {
            action: Action::Delay {
                time: Duration::from_nanos(5000),
                jitter: Duration::from_nanos(6000),
            },
            filter: Filter {
                direction: Direction::Out,
                opcode: (0x60, 0xe0),
                qp: Some(Qpn::new(0x12)),
            },
            probability: 2500,
            after: 1,
            count: Some(2),
            seed: 7,
        };
        assert_eq!(rule, Some(expected));
        let rule = one("reorder in distance=9 time=20");
        let expected = Action::Reorder {
            distance: 9,
            patience: Duration::from_nanos(20_000),
        };
        assert_eq!(rule.map(|rule| rule.action), Some(expected));
    }

    #[test]
    fn several_lines() {
        let mut commands = parse("clear\n\n# nothing\ncut in count=5\n");
        assert_eq!(commands.next(), Some(Ok(Command::Clear)));
        assert!(matches!(commands.next(), Some(Ok(Command::Add(_)))));
        assert_eq!(commands.next(), None);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "drop",
            "drop both",
            "lose in",
            "clear all",
            "drop in 1%",
            "drop in probability=1",
            "drop in probability=101%",
            "drop in probability=100.0001%",
            "drop in probability=.5%",
            "drop in probability=1.%",
            "drop in probability=0.00001%",
            "drop in probability=-1%",
            "drop in count=-1",
            "drop in count=+1",
            "drop in count=",
            "drop in count=0x",
            "drop in count=0x+1",
            "drop in opcode=256",
            "drop in opcode=1/",
            "drop in qp=0x1000000",
            "drop in time=5",
            "reorder in distance=0",
            "reorder in jitter=1",
            "delay in distance=1",
            "delay in time=3600000001",
            "drop in seed=18446744073709551616",
        ] {
            assert_eq!(parse(line).next(), Some(Err(BadLine)));
        }
    }
}
