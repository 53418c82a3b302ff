// SPDX-License-Identifier: GPL-2.0

//! How many packets may be under way.
//!
//! The configured number is what a good network takes. One that loses or reorders packets, or whose queues are
//! full, gets worse by it: each repair sends the whole window again. So the window is halved with each sign of a
//! loss, and grows with what is acknowledged, first by as much, then by one for each window, until it is
//! whole again.

use crate::transport::config::QpConfig;

/// The smallest window that a loss leaves, in packets.
const LEAST: u32 = 8;

/// The window of a requester.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Packets, if that is less than configured.
    packets: u32,
    /// Up to here the window grows quickly.
    threshold: u32,
    /// Packets acknowledged since it last grew slowly.
    credit: u32,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            packets: u32::MAX,
            threshold: u32::MAX,
            credit: 0,
        }
    }
}

impl Window {
    /// The number of packets, at least one.
    #[inline]
    pub(super) fn packets(&self, config: &QpConfig) -> u32 {
        self.packets.min(config.max_unacked).max(1)
    }

    /// Whether it is smaller than configured.
    pub(super) fn is_reduced(&self, config: &QpConfig) -> bool {
        self.packets < config.max_unacked
    }

    /// Something was lost, or is late.
    pub(super) fn on_loss(&mut self, config: &QpConfig) {
        self.packets = (self.packets(config) >> 1).max(LEAST);
        self.threshold = self.packets;
        self.credit = 0;
    }

    /// An answer is overdue. One packet is enough to ask for it, and the answer tells what is missing: if the
    /// queues were full, and nothing was lost, sending more would have filled them further. With the answer the
    /// window is what any loss leaves.
    pub(super) fn on_silence(&mut self, config: &QpConfig) {
        self.on_loss(config);
        self.packets = 1;
    }

    /// `count` packets were acknowledged.
    pub(super) fn on_progress(&mut self, count: u32, config: &QpConfig) {
        if !self.is_reduced(config) {
            return;
        }
        if self.packets < self.threshold {
            self.packets = self.packets.saturating_add(count).max(LEAST);
            return;
        }
        self.credit = self.credit.saturating_add(count);
        if self.credit >= self.packets {
            self.credit = 0;
            self.packets = self.packets.saturating_add(1);
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_window))]
mod tests {
    use super::*;

    fn config() -> QpConfig {
        QpConfig {
            max_unacked: 256,
            ..QpConfig::default()
        }
    }

    #[test]
    fn a_good_network_gets_all() {
        let mut window = Window::default();
        window.on_progress(1000, &config());
        assert_eq!(window.packets(&config()), 256);
        assert!(!window.is_reduced(&config()));
    }

    #[test]
    fn losses_shrink_it_down_to_the_least() {
        let mut window = Window::default();
        window.on_loss(&config());
        assert_eq!(window.packets(&config()), 128);
        for _ in 0..20 {
            window.on_loss(&config());
        }
        assert_eq!(window.packets(&config()), LEAST);
    }

    #[test]
    fn it_grows_quickly_then_slowly_until_it_is_whole() {
        let mut window = Window::default();
        window.on_silence(&config());
        assert_eq!(window.packets(&config()), 1);
        for _ in 0..15 {
            let packets = window.packets(&config());
            window.on_progress(packets, &config());
        }
        let packets = window.packets(&config());
        assert!((128..160).contains(&packets));
        for _ in 0..40_000 {
            window.on_progress(1, &config());
        }
        assert!(!window.is_reduced(&config()));
    }

    #[test]
    fn a_small_window_stays_as_configured() {
        let config = QpConfig {
            max_unacked: 2,
            ..QpConfig::default()
        };
        let mut window = Window::default();
        window.on_loss(&config);
        assert_eq!(window.packets(&config), 2);
        assert!(!window.is_reduced(&config));
    }
}
