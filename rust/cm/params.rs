// SPDX-License-Identifier: GPL-2.0

//! The parameters of the module, in the ranges where they make sense.

use crate::module_parameters;
use core::borrow::Borrow;
use kernel::prelude::*;

/// What a parameter is set to, which the kernel gives or lends, by its version.
fn value<T: Copy>(of: impl Borrow<T>) -> T {
    *of.borrow()
}

/// Checks all parameters when the module is loaded.
///
/// # Errors
///
/// `EINVAL`, with a line in the log.
pub(crate) fn check() -> Result {
    let dedicated = value::<u8>(module_parameters::dedicated.value());
    let events = value::<u8>(module_parameters::watch_events.value());
    for (name, value, high) in [
        ("dedicated", dedicated, 1),
        ("watch", watch(), 2),
        ("watch_events", events, 1),
    ] {
        if value > high {
            pr_err!("parameter {name}: {value} is not in 0 to {high}\n");
            return Err(EINVAL);
        }
    }
    Ok(())
}

/// Whether ib_cm is kept off new HCAs that nothing else is said about.
pub(crate) fn dedicated() -> bool {
    value::<u8>(module_parameters::dedicated.value()) != 0
}

/// What is done for connections of ib_cm: the number of a [`Level`](crate::watch::Level).
pub(crate) fn watch() -> u8 {
    value(module_parameters::watch.value())
}

/// Whether owners of queue pairs are told of migrations to paths that were loaded for them.
pub(crate) fn watch_events() -> bool {
    value::<u8>(module_parameters::watch_events.value()) != 0
}
