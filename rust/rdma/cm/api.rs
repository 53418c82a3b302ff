// SPDX-License-Identifier: GPL-2.0

//! Clients of a connection manager in other modules of the kernel.
//!
//! C header: `include/rdma/sib_cm.h`, whose functions are in `rust/cm/api.c`.

use crate::call::Call;
use crate::sync::{
    Cx,
    Gate,
    Pass,
    Sleepable,
    Unlocked, //
};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr;
use kernel::error::{
    from_result,
    to_result, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Relaxed,
    Release, //
};
use kernel::sync::{
    Arc,
    ArcBorrow, //
};
use kernel::types::{
    ForeignOwnable,
    Opaque, //
};
use sib_bindings as bindings;

/// What an identifier of a client is.
pub trait Client: Send + Sync + Sized + 'static {
    /// What all of them have in common.
    type Shared: Send + Sync + 'static;
    /// What a handler is told: `struct sib_cm_event`.
    type Event: zerocopy::IntoBytes + zerocopy::Immutable;

    /// Somebody makes an identifier for the HCA with this GUID.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none.
    fn create(shared: &Arc<Self::Shared>, guid: u64, handle: Handle<Self>) -> Result<Arc<Self>>;

    /// What it is made with.
    fn handle(&self) -> &Handle<Self>;

    /// Gives an order.
    fn command(
        self: &Arc<Self>,
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        call: Call<'_>,
    ) -> Result<isize>;

    /// The client lets go of it, and wants to hear no more of it: a [call](Handle::call) of its handler that is under way
    /// is waited for afterwards, and there is no other one.
    fn destroy(self: Arc<Self>, cx: Cx<'_, Unlocked>, s: Sleepable<'_>);
}

/// Where the reference of an identifier's client is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There is none yet.
    Fresh,
    /// The C side has it, and the client nothing.
    Given,
    /// The client has the identifier, and may use it.
    Known,
    /// The client has been told of the identifier, and has said that it is not to stay.
    Declined,
    /// It has been taken back.
    Taken,
}

/// An identifier as its client has it.
///
/// # Invariants
///
/// `stage` is that of a [`Stage`]. From [`Stage::Given`] to [`Stage::Declined`] `owned` comes from
/// [`ForeignOwnable::into_foreign`] of the `Arc<C>` that this is a part of, and is the reference of the client. Who makes
/// it [`Stage::Taken`] owns that. The client uses the identifier only while that is [`Stage::Known`].
///
/// The handler may be called by who has passed `calls`, and `listener` as well before the client knows the identifier.
pub struct Handle<C: Client> {
    raw: Opaque<bindings::sib_cm_id>,
    owned: Atomic<*mut C>,
    stage: Atomic<u32>,
    /// Closed when the client destroys the identifier.
    calls: Arc<Gate>,
    /// `calls` of the listener that this one is [like](Handle::another): it has the same handler and context.
    listener: Option<Arc<Gate>>,
    client: PhantomData<Arc<C>>,
}

// SAFETY: What is in `raw` is written before the client has it, but for the context, which is the client's to guard.
unsafe impl<C: Client> Send for Handle<C> {}
// SAFETY: As above.
unsafe impl<C: Client> Sync for Handle<C> {}

impl<C: Client> Handle<C> {
    /// One like `template`.
    ///
    /// # Safety
    ///
    /// `template` is valid for the call. Its handler may be called, with an identifier that has its context, until the
    /// client has destroyed that; if there is a gate of a listener, by those who have passed that alone until the client
    /// knows the identifier.
    unsafe fn like(
        template: *const bindings::sib_cm_id,
        listener: Option<Arc<Gate>>,
    ) -> Result<Self> {
        // INVARIANT: Nobody has it yet. Who may call the handler is promised by the caller.
        Ok(Self {
            // SAFETY: Promised by the caller.
            raw: Opaque::new(unsafe { template.read() }),
            owned: Atomic::new(ptr::null_mut()),
            stage: Atomic::new(Stage::Fresh as u32),
            calls: Arc::pin_init(Gate::new(), GFP_KERNEL_ACCOUNT)?,
            listener,
            client: PhantomData,
        })
    }

    /// One with the handler and the context of this listener, whose client is told of it as long as it has the listener.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn another(&self) -> Result<Self> {
        // SAFETY: It has been made by `like`, of what has this handler and this context, which are the client's own until
        // it has destroyed the listener, when the gate is closed.
        unsafe { Self::like(self.raw.get(), Some(self.calls.clone())) }
    }

    /// Goes on to another stage. Whether this was at the one before.
    fn proceed(&self, from: Stage, to: Stage) -> bool {
        self.stage.cmpxchg(from as u32, to as u32, Full).is_ok()
    }

    /// Gives the C side a reference of `client`, of which its handle, which is returned, is to be a part. To be done once.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is none, or the C side has one already.
    pub fn give(client: &Arc<C>) -> Result<&Self> {
        let handle = client.handle();
        let offset = ptr::from_ref(handle)
            .addr()
            .wrapping_sub(Arc::as_ptr(client).addr());
        if offset >= size_of::<C>() {
            return Err(EINVAL);
        }
        let owned = client.clone().into_foreign().cast::<C>();
        if handle.owned.cmpxchg(ptr::null_mut(), owned, Full).is_err() {
            // SAFETY: Made above, and given to nobody.
            drop(unsafe { Arc::<C>::from_foreign(owned.cast()) });
            return Err(EINVAL);
        }
        // SAFETY: The C side has not got it.
        unsafe { (*handle.raw.get()).core = ptr::from_ref(handle).cast_mut().cast() };
        // INVARIANT: It is a part, as checked above. Only who has stored the reference gets here.
        handle.stage.store(Stage::Given as u32, Release);
        Ok(handle)
    }

    /// Takes the reference of its client back, if that has one, but does not have the identifier: it has not been told of
    /// it, or has said that it is not to stay.
    pub fn take(&self) -> Option<Arc<C>> {
        let is_taken =
            self.proceed(Stage::Given, Stage::Taken) || self.proceed(Stage::Declined, Stage::Taken);
        // SAFETY: By the invariant; this has made it so.
        is_taken.then(|| unsafe { self.reference() })
    }

    /// The client has given the identifier up: takes its reference back.
    ///
    /// # Safety
    ///
    /// It does not use the identifier any more.
    unsafe fn retire(&self) -> Option<Arc<C>> {
        // Its handler may have declined it while that was waited for.
        let is_taken =
            self.proceed(Stage::Known, Stage::Taken) || self.proceed(Stage::Declined, Stage::Taken);
        // SAFETY: By the invariant; this has made it so.
        is_taken.then(|| unsafe { self.reference() })
    }

    /// # Safety
    ///
    /// The caller has made the stage [`Stage::Taken`].
    unsafe fn reference(&self) -> Arc<C> {
        // SAFETY: By the invariant.
        unsafe { Arc::from_foreign(self.owned.load(Relaxed).cast()) }
    }

    fn is_known(&self) -> bool {
        self.stage.load(Acquire) == Stage::Known as u32
    }

    /// Gets the right to call the handler, upon which the client knows the identifier, unless it has destroyed that or,
    /// before it knew it, the listener.
    fn enter(&self) -> Option<(Pass<'_>, Option<Pass<'_>>)> {
        let own = self.calls.enter()?;
        if self.is_known() {
            return Some((own, None));
        }
        let listener = match &self.listener {
            Some(listener) => Some(listener.enter()?),
            None => None,
        };
        let may_call = self.proceed(Stage::Given, Stage::Known) || self.is_known();
        may_call.then_some((own, listener))
    }

    /// Calls the handler, which may be that of the listener that this one is [like](Self::another). Returns whether the
    /// identifier is to stay; it does not either if the C side has no reference, or the client has declined it, or has
    /// destroyed it or, before it knew it, the listener.
    pub fn call(&self, _cx: &mut Cx<'_, Unlocked>, _s: Sleepable<'_>, event: &C::Event) -> bool {
        const { assert!(size_of::<C::Event>() == size_of::<bindings::sib_cm_event>()) };
        let Some(_passes) = self.enter() else {
            return false;
        };
        // SAFETY: Nobody writes to the handler.
        let handler = unsafe { (*self.raw.get()).cm_handler };
        // SAFETY: The gates have been passed, so that the client has the handler and the context that belongs to it. The
        // event has the layout of the C structure.
        let stays = handler.is_none_or(|handler| unsafe {
            handler(self.raw.get(), ptr::from_ref(event).cast()) == 0
        });
        if !stays {
            // INVARIANT: The client does not use what it has declined. What it has destroyed stays as it is.
            self.proceed(Stage::Known, Stage::Declined);
        }
        stays
    }
}

/// What the functions of the header come to, from when this is made until the module goes.
///
/// # Invariants
///
/// The C side has `core`, which has the address of `shared`.
pub struct Service<C: Client> {
    core: ManuallyDrop<KBox<bindings::sib_cm_core>>,
    shared: ManuallyDrop<Arc<C::Shared>>,
}

// SAFETY: It may be dropped by any task; the rest is `Send`.
unsafe impl<C: Client> Send for Service<C> {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl<C: Client> Sync for Service<C> {}

impl<C: Client> Service<C> {
    /// To be called when the module is loaded, and dropped when it is removed: no module that uses it is there before
    /// and after. If it is dropped earlier, what the functions need stays.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is one.
    pub fn new(shared: Arc<C::Shared>) -> Result<Self> {
        let core = bindings::sib_cm_core {
            shared: Arc::as_ptr(&shared).cast_mut().cast(),
            create: Some(create::<C>),
            destroy: Some(destroy::<C>),
            command: Some(command::<C>),
        };
        let core = KBox::new(core, GFP_KERNEL)?;
        // SAFETY: It stays in place until `drop`.
        to_result(unsafe { bindings::sib_cm_set_core(&*core) })?;
        // INVARIANT: Just set.
        Ok(Self {
            core: ManuallyDrop::new(core),
            shared: ManuallyDrop::new(shared),
        })
    }
}

impl<C: Client> Drop for Service<C> {
    fn drop(&mut self) {
        // SAFETY: What is set is ours.
        if unsafe { bindings::sib_cm_clear_core() } {
            // SAFETY: The C side has it no more, and these fields are not used again.
            unsafe {
                ManuallyDrop::drop(&mut self.core);
                ManuallyDrop::drop(&mut self.shared);
            }
        }
    }
}

/// The tokens of a call by a client.
///
/// # Safety
///
/// The caller is a task, and holds no lock of this driver.
unsafe fn tokens<'a>() -> (Cx<'a, Unlocked>, Sleepable<'a>) {
    // SAFETY: Promised by the caller.
    unsafe { (Cx::root(), Sleepable::new()) }
}

/// # Safety
///
/// `shared` is that of a [`Service`] of `C`, and `template` valid for the call, with a handler that may be called until
/// the identifier is destroyed. A task that holds no lock of this driver.
unsafe extern "C" fn create<C: Client>(
    shared: *mut c_void,
    guid: u64,
    template: *const bindings::sib_cm_id,
) -> *mut bindings::sib_cm_id {
    // SAFETY: The service has a reference, and it lives.
    let shared = unsafe { ArcBorrow::<C::Shared>::from_raw(shared.cast_const().cast()) };
    // SAFETY: Promised by the caller.
    let handle = unsafe { Handle::like(template, None) };
    let made = handle.and_then(|handle| {
        let calls = handle.calls.clone();
        make::<C>(&shared.into(), guid, handle, &calls).inspect_err(|_| {
            // SAFETY: Promised by the caller.
            let (mut cx, s) = unsafe { tokens() };
            // The handle may be anywhere, and the context is the caller's again.
            calls.close(&mut cx, s);
        })
    });
    made.unwrap_or_else(|err| err.to_ptr())
}

/// Makes an identifier whose handle is `handle`, of which `calls` is the gate.
fn make<C: Client>(
    shared: &Arc<C::Shared>,
    guid: u64,
    handle: Handle<C>,
    calls: &Arc<Gate>,
) -> Result<*mut bindings::sib_cm_id> {
    let client = C::create(shared, guid, handle)?;
    let handle = Handle::give(&client)?;
    // INVARIANT: The caller of the C function is the client, if it is its handle.
    if !Arc::ptr_eq(&handle.calls, calls) || !handle.proceed(Stage::Given, Stage::Known) {
        drop(handle.take());
        return Err(EINVAL);
    }
    Ok(handle.raw.get())
}

/// # Safety
///
/// As [`client_of`].
unsafe fn handle_of<'a, C: Client>(id: *mut bindings::sib_cm_id) -> &'a Handle<C> {
    // SAFETY: `give` has written it, and the reference of the client keeps it.
    unsafe { &*(*id).core.cast::<Handle<C>>() }
}

/// # Safety
///
/// `id` is that of a client that has not destroyed it, or this is in a call of its handler, which [`destroy`] waits for.
unsafe fn client_of<C: Client>(id: *mut bindings::sib_cm_id) -> Arc<C> {
    // SAFETY: Promised by the caller.
    let owned = unsafe { handle_of::<C>(id) }.owned.load(Acquire);
    // SAFETY: By the invariant. It is not null, as the client knows the identifier.
    unsafe { Arc::<C>::borrow(owned.cast()) }.into()
}

/// # Safety
///
/// `id` is that of a client that has not destroyed it. Nobody else gives orders for it, but for its handler. A task that
/// holds no lock of this driver.
unsafe extern "C" fn destroy<C: Client>(id: *mut bindings::sib_cm_id) {
    // SAFETY: Promised by the caller.
    let client = unsafe { client_of::<C>(id) };
    // SAFETY: Promised by the caller.
    let (mut cx, s) = unsafe { tokens() };
    client.clone().destroy(cx.reborrow(), s);
    // SAFETY: Promised by the caller; `client` keeps it.
    let handle = unsafe { handle_of::<C>(id) };
    handle.calls.close(&mut cx, s);
    // SAFETY: Promised by the caller.
    drop(unsafe { handle.retire() });
}

/// # Safety
///
/// As [`client_of`], for the whole call; `arg` is what belongs to the number. A task that holds no lock of this driver.
unsafe extern "C" fn command<C: Client>(
    id: *mut bindings::sib_cm_id,
    number: c_uint,
    arg: *mut c_void,
) -> c_int {
    from_result(|| {
        // SAFETY: Promised by the caller.
        let client = unsafe { client_of::<C>(id) };
        // SAFETY: Promised by the caller.
        let (cx, s) = unsafe { tokens() };
        // SAFETY: As above.
        let call = unsafe { Call::of_kernel(number, arg) };
        client.command(cx, s, call)?;
        Ok(0)
    })
}

#[kunit_tests(sib_rdma_cm_api)]
mod tests {
    use super::*;
    use crate::sync::test_context;
    use kernel::sync::SetOnce;

    /// An identifier that does nothing, also when it is destroyed.
    struct Fake {
        handle: Handle<Self>,
    }

    impl Client for Fake {
        type Shared = ();
        type Event = [u8; size_of::<bindings::sib_cm_event>()];

        fn create(_shared: &Arc<()>, _guid: u64, handle: Handle<Self>) -> Result<Arc<Self>> {
            Ok(Arc::new(Self { handle }, GFP_KERNEL)?)
        }

        fn handle(&self) -> &Handle<Self> {
            &self.handle
        }

        fn command(
            self: &Arc<Self>,
            _cx: Cx<'_, Unlocked>,
            _s: Sleepable<'_>,
            _call: Call<'_>,
        ) -> Result<isize> {
            Ok(0)
        }

        fn destroy(self: Arc<Self>, _cx: Cx<'_, Unlocked>, _s: Sleepable<'_>) {}
    }

    const EVENT: <Fake as Client>::Event = [0; size_of::<bindings::sib_cm_event>()];

    /// Counts its calls in the context.
    unsafe extern "C" fn count(
        id: *mut bindings::sib_cm_id,
        _event: *const bindings::sib_cm_event,
    ) -> c_int {
        // SAFETY: The context is the counter of the test.
        let calls = unsafe { &*(*id).context.cast::<Atomic<i32>>() };
        calls.fetch_add(1, Relaxed);
        0
    }

    /// What a client gives, whose handler counts in `calls`.
    fn counting(calls: &Atomic<i32>) -> bindings::sib_cm_id {
        bindings::sib_cm_id {
            cm_handler: Some(count),
            context: ptr::from_ref(calls).cast_mut().cast(),
            ..Default::default()
        }
    }

    /// What a client does: an identifier whose handler counts in `calls`, and the same as the C side has it.
    fn make(calls: &Atomic<i32>) -> Result<(*mut bindings::sib_cm_id, Arc<Fake>)> {
        let shared = Arc::new((), GFP_KERNEL)?;
        let template = counting(calls);
        // SAFETY: A reference to what is shared is held, and the handler may be called.
        let id = unsafe { create::<Fake>(Arc::as_ptr(&shared).cast_mut().cast(), 0, &template) };
        let id = kernel::error::from_err_ptr(id)?;
        // SAFETY: Just made.
        Ok((id, unsafe { client_of::<Fake>(id) }))
    }

    #[test]
    fn destroyed_identifiers_are_silent() -> Result {
        let (mut cx, s) = test_context();
        let calls = Atomic::new(0);
        let (id, client) = make(&calls)?;
        assert!(client.handle.call(&mut cx, s, &EVENT));
        assert_eq!(calls.load(Relaxed), 1);
        // SAFETY: Nobody else uses it.
        unsafe { destroy::<Fake>(id) };
        assert!(!client.handle.call(&mut cx, s, &EVENT));
        assert_eq!(calls.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn newcomers_are_silent_when_their_listener_is_destroyed() -> Result {
        let (mut cx, s) = test_context();
        let calls = Atomic::new(0);
        let (id, listener) = make(&calls)?;
        let mut newcomers = KVec::new();
        for _ in 0..2 {
            let handle = listener.handle.another()?;
            let newcomer = Arc::new(Fake { handle }, GFP_KERNEL)?;
            Handle::give(&newcomer)?;
            newcomers.push(newcomer, GFP_KERNEL)?;
        }
        let [known, unknown] = &newcomers[..] else {
            return Err(EINVAL);
        };
        assert!(known.handle.call(&mut cx, s, &EVENT));
        // SAFETY: Nobody else uses it.
        unsafe { destroy::<Fake>(id) };
        assert!(known.handle.call(&mut cx, s, &EVENT));
        assert!(!unknown.handle.call(&mut cx, s, &EVENT));
        assert_eq!(calls.load(Relaxed), 2);
        assert!(unknown.handle.take().is_some());
        // SAFETY: The client knows it, and nobody else uses it.
        unsafe { destroy::<Fake>(known.handle.raw.get()) };
        Ok(())
    }

    /// An identifier that is not made after all, although somebody else has it.
    struct Refused {
        handle: Handle<Self>,
    }

    impl Client for Refused {
        type Shared = SetOnce<Arc<Self>>;
        type Event = <Fake as Client>::Event;

        fn create(
            shared: &Arc<Self::Shared>,
            _guid: u64,
            handle: Handle<Self>,
        ) -> Result<Arc<Self>> {
            let client = Arc::new(Self { handle }, GFP_KERNEL)?;
            Handle::give(&client)?;
            shared.populate(client);
            Err(ENODEV)
        }

        fn handle(&self) -> &Handle<Self> {
            &self.handle
        }

        fn command(
            self: &Arc<Self>,
            _cx: Cx<'_, Unlocked>,
            _s: Sleepable<'_>,
            _call: Call<'_>,
        ) -> Result<isize> {
            Ok(0)
        }

        fn destroy(self: Arc<Self>, _cx: Cx<'_, Unlocked>, _s: Sleepable<'_>) {}
    }

    #[test]
    fn identifiers_that_are_not_made_are_silent() -> Result {
        let (mut cx, s) = test_context();
        let calls = Atomic::new(0);
        let shared = Arc::new(SetOnce::<Arc<Refused>>::new(), GFP_KERNEL)?;
        let template = counting(&calls);
        // SAFETY: As in `make`.
        let id = unsafe { create::<Refused>(Arc::as_ptr(&shared).cast_mut().cast(), 0, &template) };
        assert_eq!(kernel::error::from_err_ptr(id).err(), Some(ENODEV));
        let client = SetOnce::as_ref(&shared).ok_or(EINVAL)?;
        assert!(!client.handle.call(&mut cx, s, &EVENT));
        assert_eq!(calls.load(Relaxed), 0);
        assert!(client.handle.take().is_some());
        Ok(())
    }
}
