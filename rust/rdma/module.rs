// SPDX-License-Identifier: GPL-2.0

//! Entry to and exit from the module, with the tokens of these contexts.

use crate::layout;
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use core::ptr;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full,
    Release, //
};

/// The words of the parameter `peers`. They stay until the module is removed.
pub fn peers() -> impl Iterator<Item = &'static CStr> {
    (0..).map_while(|index| {
        // SAFETY: Callable in any context.
        let word = unsafe { sib_bindings::sib_helper_peer(index) };
        // SAFETY: A word is terminated, and not written to while the module is there.
        (!word.is_null()).then(|| unsafe { CStr::from_char_ptr(word) })
    })
}

/// Loads the module `name`, if it is to be had. Unlike a dependency it does not matter when this one is removed.
pub fn request(_s: Sleepable<'_>, name: &CStr) {
    // SAFETY: May be called by any task that may sleep and holds no lock; the name is copied.
    let _ = unsafe { sib_bindings::sib_helper_request_module(name.as_char_ptr()) };
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

/// The module whose code this stands in. It takes the place of what `module!` declares, which has another name and type
/// in each kernel.
///
/// # Examples
///
/// ```ignore
/// static MODULE: ThisModule = rdma::this_module!();
/// ```
#[macro_export]
macro_rules! this_module {
    () => {{
        extern "C" {
            static __this_module: ::kernel::types::Opaque<::kernel::bindings::module>;
        }

        #[allow(unsafe_code, reason = "module glue")]
        // SAFETY: The linker puts it into each module, and it stays until that is removed.
        let module = unsafe { ::kernel::ThisModule::from_ptr(__this_module.get()) };
        module
    }};
}

/// Says whether a file of the module may be opened, or a folder made: with `ENODEV` not while it is being loaded. If that
/// fails the module goes, whatever there is.
pub fn check_loaded(module: &'static ThisModule) -> Result {
    // SAFETY: The caller is a part of the module, so it is there.
    let is_loaded = unsafe { sib_bindings::sib_helper_module_is_loaded(module.as_ptr()) };
    is_loaded.then_some(()).ok_or(ENODEV)
}

/// The modules that have been entered: two at most, and one of a test.
static ENTERED: [Atomic<*mut ThisModule>; 3] = [const { Atomic::new(ptr::null_mut()) }; 3];

/// A module has been entered, and is not left before this is dropped.
///
/// # Invariants
///
/// The place is that of the module, and this alone empties it.
struct Entered(&'static Atomic<*mut ThisModule>);

impl Entered {
    /// Notes that `module` is entered. The first to do so is the kernel, as nothing of the module runs before.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it has been entered.
    fn new(module: &'static ThisModule) -> Result<Self> {
        let module = ptr::from_ref(module).cast_mut();
        for place in &ENTERED {
            match place.cmpxchg(ptr::null_mut(), module, Full) {
                // INVARIANT: Just taken.
                Ok(_) => return Ok(Self(place)),
                Err(other) if other == module => return Err(EBUSY),
                Err(_) => {}
            }
        }
        Err(EBUSY)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.store(ptr::null_mut(), Release);
    }
}

/// Adapts a [`Module`] to the `module!` macro. A module that has been entered cannot be entered again, by whoever calls
/// what this implements.
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
    _entered: Entered,
}

impl<T: Module> kernel::Module for Glue<T> {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let entered = Entered::new(module)?;
        layout::check()?;
        // SAFETY: Modules are loaded by a task that holds no lock of ours, and this is the first call.
        let cx = unsafe { Cx::root() };
        // SAFETY: As above.
        let sleepable = unsafe { Sleepable::new() };
        Ok(Self {
            inner: T::init(module, cx, sleepable)?,
            _entered: entered,
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

#[kunit_tests(sib_rdma_module)]
mod tests {
    use super::*;
    use kernel::sync::atomic::Relaxed;

    // SAFETY: No module.
    static MODULE: ThisModule = unsafe { ThisModule::from_ptr(ptr::null_mut()) };

    static LIVES: Atomic<i32> = Atomic::new(0);

    /// Tries to be entered once more while it is, each time it is entered; and fails after the second time.
    struct Eager;

    impl Module for Eager {
        fn init(
            module: &'static ThisModule,
            _cx: Cx<'_, Unlocked>,
            _sleepable: Sleepable<'_>,
        ) -> Result<Self> {
            let again = <Glue<Self> as kernel::Module>::init(module);
            assert_eq!(again.err(), Some(EBUSY));
            if LIVES.fetch_add(1, Relaxed) == 1 {
                return Err(ENODEV);
            }
            Ok(Self)
        }

        fn exit(&mut self, _cx: Cx<'_, Unlocked>, _sleepable: Sleepable<'_>) {}
    }

    #[test]
    fn a_module_is_entered_once() -> Result {
        let enter = || <Glue<Eager> as kernel::Module>::init(&MODULE);
        LIVES.store(0, Relaxed);
        let first = enter()?;
        assert_eq!(enter().err(), Some(EBUSY));
        drop(first);
        assert_eq!(enter().err(), Some(ENODEV));
        drop(enter()?);
        assert_eq!(LIVES.load(Relaxed), 3);
        Ok(())
    }
}
