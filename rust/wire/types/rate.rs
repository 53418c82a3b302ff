// SPDX-License-Identifier: GPL-2.0

//! Rates of paths and groups, and the links that they come from (IBA "PathRecord", component Rate).

use crate::mad::smp::{
    speed,
    speed_ext,
    width,
    PortInfo, //
};

/// The codes of all rates, in the order of the rates, each with its Mb/s as the standard rounds them.
#[rustfmt::skip]
const RATES: [(u8, u32); 23] = [
    (2, 2_500),    (5, 5_000),    (3, 10_000),   (11, 14_000),  (6, 20_000),   (15, 25_000),
    (19, 28_000),  (4, 30_000),   (7, 40_000),   (20, 50_000),  (12, 56_000),  (8, 60_000),
    (9, 80_000),   (16, 100_000), (13, 112_000), (10, 120_000), (14, 168_000), (17, 200_000),
    (18, 300_000), (21, 400_000), (22, 600_000), (23, 800_000), (24, 1_200_000),
];

/// Mb/s of a lane by PortInfo:LinkSpeedActive.
const SPEEDS: [(u8, u32); 3] = [
    (speed::SDR, 2_500),
    (speed::DDR, 5_000),
    (speed::QDR, 10_000), //
];

/// Mb/s of a lane by PortInfo:LinkSpeedExtActive.
const EXTENDED_SPEEDS: [(u8, u32); 4] = [
    (speed_ext::FDR, 14_000),
    (speed_ext::EDR, 25_000),
    (speed_ext::HDR, 50_000),
    (speed_ext::NDR, 100_000),
];

/// Lanes by PortInfo:LinkWidthActive.
const WIDTHS: [(u8, u32); 5] = [
    (width::X1, 1),
    (width::X2, 2),
    (width::X4, 4),
    (width::X8, 8),
    (width::X12, 12), //
];

fn look_up(table: &[(u8, u32)], key: u8) -> Option<u32> {
    let entry = table.iter().find(|(code, _)| *code == key)?;
    Some(entry.1)
}

/// The speed of a path, of those that have a code. The slower one is the lesser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    /// Place in [`RATES`].
    place: u8,
}

impl Rate {
    /// The slowest one: 2.5 Gb/s.
    pub const SLOWEST: Self = Self { place: 0 };

    /// The rate of a code; `None` for a reserved one.
    pub fn from_code(code: u8) -> Option<Self> {
        let place = (0..=u8::MAX)
            .zip(RATES)
            .find(|(_, entry)| entry.0 == code)?
            .0;
        Some(Self { place })
    }

    /// The code (6 bits).
    pub fn code(self) -> u8 {
        self.entry().0
    }

    /// Megabits in a second.
    pub fn mbps(self) -> u32 {
        self.entry().1
    }

    /// The rate of the link of a port, by its active width and speed.
    pub fn of_link(info: &PortInfo) -> Self {
        let lanes = look_up(&WIDTHS, info.link_width_active).unwrap_or(1);
        let lane = look_up(&EXTENDED_SPEEDS, info.link_speed_ext_active)
            .or_else(|| look_up(&SPEEDS, info.link_speed_active))
            .unwrap_or_default();
        Self::fitting(lane.saturating_mul(lanes))
    }

    /// The fastest rate of at most `mbps`; the slowest one if there is none.
    pub fn fitting(mbps: u32) -> Self {
        let fits = (0..=u8::MAX)
            .zip(RATES)
            .take_while(|(_, (_, rate))| *rate <= mbps);
        let place = fits.last().map_or(0, |(place, _)| place);
        Self { place }
    }

    fn entry(self) -> (u8, u32) {
        let entry = RATES.get(usize::from(self.place));
        entry.copied().unwrap_or(RATES[0])
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_wire_rate))]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_in_order() {
        let mut last = None;
        for (code, mbps) in RATES {
            let rate = Rate::from_code(code);
            assert_eq!(rate.map(Rate::code), Some(code));
            assert_eq!(rate.map(Rate::mbps), Some(mbps));
            assert!(rate > last);
            last = rate;
        }
        for code in [0, 1, 25, 63] {
            assert_eq!(Rate::from_code(code), None);
        }
    }

    #[test]
    fn links() {
        // (width, speed, extended speed, Mb/s)
        for (width, speed, ext, want) in [
            (width::X1, speed::SDR, 0, 2_500),
            (width::X4, speed::SDR, 0, 10_000),
            (width::X4, speed::QDR, 0, 40_000),
            (width::X12, speed::QDR, 0, 120_000),
            (width::X4, speed::QDR, speed_ext::FDR, 56_000),
            (width::X4, speed::QDR, speed_ext::EDR, 100_000),
            (width::X2, speed::QDR, speed_ext::FDR, 28_000),
            (width::X4, speed::QDR, speed_ext::NDR, 400_000),
            (0, 0, 0, 2_500),
        ] {
            let info = PortInfo {
                link_width_active: width,
                link_speed_active: speed,
                link_speed_ext_active: ext,
                ..PortInfo::default()
            };
            assert_eq!(Rate::of_link(&info).mbps(), want);
        }
    }

    #[test]
    fn rates_between_are_rounded_down() {
        assert_eq!(Rate::fitting(0), Rate::SLOWEST);
        assert_eq!(Rate::fitting(9_999).mbps(), 5_000);
        assert_eq!(Rate::fitting(u32::MAX).code(), 24);
    }
}
