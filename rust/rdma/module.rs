// SPDX-License-Identifier: GPL-2.0

//! Entry to and exit from the module, with the tokens of these contexts.

use crate::layout;
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use kernel::prelude::*;

/// The words of the parameter `peers`. They stay until the module is removed.
pub fn peers() -> impl Iterator<Item = &'static CStr> {
    (0..).map_while(|index| {
        // SAFETY: Callable in any context.
        let word = unsafe { sib_bindings::sib_helper_peer(index) };
        // SAFETY: A word is terminated, and not written to while the module is there.
        (!word.is_null()).then(|| unsafe { CStr::from_char_ptr(word) })
    })
}

/// A module whose entry points receive tokens.
pub trait Module: Send + Sync + Sized + 'static {
    /// Runs when the module is loaded.
    fn init(
        module: &'static ThisModule,
        cx: Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
    ) -> Result<Self>;

    /// Runs when the module is removed, before the value is dropped.
    fn exit(&mut self, cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>);
}

/// Says whether a file of the module may be opened: with `ENODEV` not while it is being loaded. If that fails the module
/// goes, whatever is open.
pub(crate) fn check_loaded(module: &'static ThisModule) -> Result {
    // SAFETY: The caller is a part of the module, so it is there.
    let is_loaded = unsafe { sib_bindings::sib_helper_module_is_loaded(module.as_ptr()) };
    is_loaded.then_some(()).ok_or(ENODEV)
}

/// Adapts a [`Module`] to the `module!` macro.
///
/// # Examples
///
/// ```ignore
/// type SibModule = rdma::module::Glue<Sib>;
///
/// module! {
///     type: SibModule,
///     name: "sib",
///     authors: ["The sib authors"],
///     description: "Soft InfiniBand",
///     license: "GPL",
/// }
/// ```
pub struct Glue<T: Module> {
    inner: T,
}

impl<T: Module> kernel::Module for Glue<T> {
    fn init(module: &'static ThisModule) -> Result<Self> {
        layout::check()?;
        // SAFETY: Modules are loaded by a task that holds no lock of ours.
        let cx = unsafe { Cx::root() };
        // SAFETY: As above.
        let sleepable = unsafe { Sleepable::new() };
        Ok(Self {
            inner: T::init(module, cx, sleepable)?,
        })
    }
}

impl<T: Module> Drop for Glue<T> {
    fn drop(&mut self) {
        // SAFETY: Modules are removed by a task that holds no lock of ours.
        let cx = unsafe { Cx::root() };
        // SAFETY: As above.
        let sleepable = unsafe { Sleepable::new() };
        self.inner.exit(cx, sleepable);
    }
}
