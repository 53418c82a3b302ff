// SPDX-License-Identifier: GPL-2.0

//! Partitions by order of the administrator: `/sys/kernel/config/sib_partitions`.
//!
//! A folder is a partition of all subnets that a subnet manager of this host is the master of. Its files:
//!
//! | file      | what                                                                            |
//! |-----------|---------------------------------------------------------------------------------|
//! | `pkey`    | which one: 0x0001 to 0x7fff, without the bit of full members; written once        |
//! | `full`    | the ports that are full members: their GUIDs, or `ALL`                           |
//! | `limited` | those that are limited ones                                                      |
//!
//! A GUID has 16 digits, with colons or `0x` or without. What is written takes the place of what was there, and is in
//! force at once; a port that both files name is a full member. The folder of 0x7fff is the default partition: without
//! it all ports are full members, with it those are that it says, and the others limited ones, be they all. So its
//! members are to be written before its `pkey`.
//!
//! From the first member on, or the `pkey` of the default partition, the subnet managers write the P_KeyTables of all
//! ports, see [`proto::sm`].

use crate::config::{
    line,
    misfit, //
};
use crate::fabric::Assignments;
use crate::registry;
#[allow(
    unused_imports,
    reason = "`configfs_attrs!` wants THIS_MODULE in scope, but not that of kernel 7.3"
)]
use crate::*;
use core::fmt;
use kernel::configfs::{
    AttributeOperations,
    Group,
    GroupOperations,
    Subsystem, //
};
use kernel::configfs_attrs;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::{
    Arc,
    CondVar,
    Mutex, //
};
use kernel::{
    new_condvar,
    new_mutex, //
};
use proto::sm::Assignment;
use rdma::configfs::{
    self,
    show, //
};
use rdma::module;
use rdma::new_work;
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use rdma::work::{
    Queue,
    Run,
    Work, //
};
use wire::mad::smp::PKeyTable;
use wire::{
    Guid,
    PKey, //
};

/// The largest number of partitions: so many a port has room for, beside the default one.
const MAX_PARTITIONS: usize = PKeyTable::ENTRIES - 1;

/// The word for all ports.
const ALL: &str = "ALL";

/// Members of one kind.
#[derive(Default)]
struct Members {
    all: bool,
    ports: KVec<Guid>,
}

/// A partition.
struct Partition {
    /// Tells folders apart.
    id: u64,
    /// [`PKey::INVALID`] until it is said.
    pkey: PKey,
    full: Members,
    limited: Members,
}

impl Partition {
    /// Says which one it is. Returns what it was.
    fn set_pkey(&mut self, pkey: PKey) -> PKey {
        core::mem::replace(&mut self.pkey, pkey)
    }
}

struct State {
    partitions: KVec<Partition>,
    next_id: u64,
    /// What the subnet managers are told.
    list: Option<Assignments>,
    /// They have yet to be told.
    pending: bool,
}

/// All partitions.
#[pin_data]
struct Book {
    #[pin]
    state: Mutex<State>,
    #[pin]
    changed: CondVar,
    #[pin]
    work: Work<Book>,
}

/// The folder of all partitions.
pub(crate) struct Partitions {
    book: Arc<Book>,
    queue: Arc<Queue>,
}

/// The folder of a partition.
pub(crate) struct Folder {
    book: Arc<Book>,
    queue: Arc<Queue>,
    id: u64,
}

/// Makes `/sys/kernel/config/sib_partitions`.
pub(crate) fn register(sleepable: Sleepable<'_>) -> Result<Pin<KBox<Subsystem<Partitions>>>> {
    let queue = Arc::new(Queue::slow(c"sib_partitions", sleepable)?, GFP_KERNEL)?;
    let state = State {
        partitions: KVec::new(),
        next_id: 0,
        list: None,
        pending: false,
    };
    let book = Arc::pin_init(
        pin_init!(Book {
            state <- new_mutex!(state, "membership::Book::state"),
            changed <- new_condvar!("membership::Book::changed"),
            work <- new_work!("membership::Book::work"),
        }),
        GFP_KERNEL,
    )?;
    let kind = configfs_attrs! {
        container: Subsystem<Partitions>,
        data: Partitions,
        child: Folder,
        attributes: [],
    };
    configfs::register(c"sib_partitions", kind, Partitions { book, queue })
}

#[vtable]
impl GroupOperations for Partitions {
    type Child = Folder;

    fn make_group(&self, name: &CStr) -> Result<impl PinInit<Group<Folder>, Error>> {
        module::check_loaded(&crate::MODULE)?;
        let kind = configfs_attrs! {
            container: Group<Folder>,
            data: Folder,
            attributes: [
                pkey: 0,
                full: 1,
                limited: 2,
            ],
        };
        let name = CString::try_from(name)?;
        let folder = Folder {
            id: self.book.state.lock().add()?,
            book: self.book.clone(),
            queue: self.queue.clone(),
        };
        Ok(Group::new(name, kind, Ok::<_, Error>(folder)))
    }
}

impl State {
    /// A new partition, without members. Returns its id.
    fn add(&mut self) -> Result<u64> {
        if self.partitions.len() >= MAX_PARTITIONS {
            return Err(ENOSPC);
        }
        let id = self.next_id;
        let partition = Partition {
            id,
            pkey: PKey::INVALID,
            full: Members::default(),
            limited: Members::default(),
        };
        self.partitions.push(partition, GFP_KERNEL)?;
        self.next_id = id.wrapping_add(1);
        Ok(id)
    }

    fn get(&self, id: u64) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.id == id)
    }

    fn get_mut(&mut self, id: u64) -> Option<&mut Partition> {
        let mut all = self.partitions.iter_mut();
        all.find(|partition| partition.id == id)
    }

    /// The members of all partitions. `EEXIST` if two are the same.
    fn assignments(&self) -> Result<KVVec<Assignment>> {
        let mut list = KVVec::new();
        let named = || self.partitions.iter().filter(|it| it.pkey.is_valid());
        for partition in named() {
            if named().any(|other| other.id != partition.id && other.pkey == partition.pkey) {
                pr_err!("configfs: there is a partition with that P_Key\n");
                return Err(EEXIST);
            }
            let full = partition.pkey.as_full();
            for (pkey, members) in [
                (full, &partition.full),
                (partition.pkey, &partition.limited),
            ] {
                if members.all {
                    list.push(Assignment { pkey, port: None }, GFP_KERNEL)?;
                }
                for port in &members.ports {
                    let port = Some(*port);
                    list.push(Assignment { pkey, port }, GFP_KERNEL)?;
                }
            }
            if full == PKey::DEFAULT {
                // A partition without assignments would not be told of.
                let (pkey, port) = (partition.pkey, None);
                list.push(Assignment { pkey, port }, GFP_KERNEL)?;
            }
        }
        Ok(list)
    }
}

impl Run for Book {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>, mut cx: Cx<'_, Unlocked>, _sleepable: Sleepable<'_>) {
        let mut state = this.state.lock();
        if let Some(list) = &state.list {
            registry::set_partitions(&mut cx, list);
        }
        state.pending = false;
        this.changed.notify_all();
    }
}

impl Folder {
    /// Changes the partition if it `may` be, and has the subnet managers told of it. When that fails nothing has changed.
    fn change<T>(
        &self,
        new: T,
        may: impl FnOnce(&Partition) -> Result,
        swap: impl Fn(&mut Partition, T) -> T,
    ) -> Result {
        let mut state = self.book.state.lock();
        let partition = state.get_mut(self.id).ok_or(ENODEV)?;
        may(partition)?;
        let old = swap(partition, new);
        let list = state.assignments().and_then(|list| {
            let same = *list == *state.list.as_deref().unwrap_or_default();
            if same {
                Ok(None)
            } else {
                Assignments::new(list).map(Some)
            }
        });
        match list {
            Ok(None) => return Ok(()),
            Ok(list) => state.list = list,
            Err(error) => {
                swap(state.get_mut(self.id).ok_or(ENODEV)?, old);
                return Err(error);
            }
        }
        state.pending = true;
        // One that is queued already has yet to take the lock, and then finds this list.
        drop(self.queue.enqueue(&self.book.work, self.book.clone()));
        while state.pending {
            self.book.changed.wait(&mut state);
        }
        Ok(())
    }

    /// Writes the members of a kind to `page`.
    fn show_members(
        &self,
        page: &mut [u8; PAGE_SIZE],
        of: impl Fn(&Partition) -> &Members,
    ) -> Result<usize> {
        let state = self.book.state.lock();
        let members = of(state.get(self.id).ok_or(ENODEV)?);
        show(page, core::format_args!("{members}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let ended = self.change(PKey::INVALID, |_| Ok(()), Partition::set_pkey);
        if ended.is_err() {
            pr_warn!("no memory: the partition stays until another one changes\n");
        }
        let id = self.id;
        self.book
            .state
            .lock()
            .partitions
            .retain(|partition| partition.id != id);
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.all {
            writeln!(f, "{ALL}")?;
        }
        for port in &self.ports {
            // No longer than what was written: it fits a page.
            writeln!(f, "{:016x}", port.get())?;
        }
        Ok(())
    }
}

/// A GUID, with colons or `0x` or without.
fn guid(text: &str) -> Result<Guid> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    Ok(Guid::new(configfs::guid(text.as_bytes())?))
}

/// The members that were written.
fn members(page: &[u8]) -> Result<Members> {
    let mut members = Members::default();
    let words = line(page)?.split(|at: char| at == ',' || at.is_ascii_whitespace());
    for word in words.filter(|word| !word.is_empty()) {
        if word == ALL {
            members.all = true;
            continue;
        }
        let port = guid(word).map_err(|_| misfit(word, "ALL or a port GUID of 16 digits"))?;
        if !members.ports.contains(&port) {
            members.ports.push(port, GFP_KERNEL)?;
        }
    }
    Ok(members)
}

/// The P_Key that was written.
fn pkey(page: &[u8]) -> Result<PKey> {
    let text = line(page)?;
    let pkey = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let pkey = pkey.ok().map(PKey::new);
    pkey.filter(|pkey| pkey.is_valid() && !pkey.is_full())
        .ok_or_else(|| misfit(text, "a P_Key from 0x0001 to 0x7fff"))
}

#[vtable]
impl AttributeOperations<0> for Folder {
    type Data = Folder;

    fn show(folder: &Folder, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let state = folder.book.state.lock();
        let pkey = state.get(folder.id).ok_or(ENODEV)?.pkey.get();
        show(page, fmt!("{pkey:#06x}\n"))
    }

    fn store(folder: &Folder, page: &[u8]) -> Result {
        let once = |partition: &Partition| match partition.pkey {
            PKey::INVALID => Ok(()),
            _ => {
                pr_err!("configfs: a partition keeps its P_Key until it is removed\n");
                Err(EBUSY)
            }
        };
        folder.change(pkey(page)?, once, Partition::set_pkey)
    }
}

#[vtable]
impl AttributeOperations<1> for Folder {
    type Data = Folder;

    fn show(folder: &Folder, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        folder.show_members(page, |partition| &partition.full)
    }

    fn store(folder: &Folder, page: &[u8]) -> Result {
        let swap =
            |partition: &mut Partition, members| core::mem::replace(&mut partition.full, members);
        folder.change(members(page)?, |_| Ok(()), swap)
    }
}

#[vtable]
impl AttributeOperations<2> for Folder {
    type Data = Folder;

    fn show(folder: &Folder, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        folder.show_members(page, |partition| &partition.limited)
    }

    fn store(folder: &Folder, page: &[u8]) -> Result {
        let swap = |partition: &mut Partition, members| {
            core::mem::replace(&mut partition.limited, members)
        };
        folder.change(members(page)?, |_| Ok(()), swap)
    }
}
