// SPDX-License-Identifier: GPL-2.0

//! What becomes of requests: an answer, a table, or a refusal.

use super::path::{
    Ends,
    Pairs, //
};
use super::transfer::Title;
use super::{
    Agent,
    Next,
    Request,
    Storage,
    Transmit, //
};
use crate::sm::{
    self,
    Manager, //
};
use crate::time::Instant;
use wire::mad::sa::{
    attr,
    cap,
    method as sa_method,
    rmpp,
    status as sa_status,
    GuidInfoRecord,
    McMemberRecord,
    NodeRecord,
    PathRecord,
    PortInfoRecord,
    Record,
    Rmpp,
    Sa,
    ServiceRecord,
    SmInfoRecord,
    DATA_LEN,
    OFFSET_UNIT, //
};
use wire::mad::{
    self,
    method,
    status,
    ClassPortInfo,
    MadHeader,
    BASE_VERSION,
    CLASS_VERSION_2, //
};

/// Records that are looked at before others may have the lock.
const BUDGET: u32 = 512;

/// The status of an answer that says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) u16);

/// One record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    data: [u8; DATA_LEN],
    size: usize,
}

impl Answer {
    pub(super) fn of<T: Record>(record: &T) -> Self {
        let mut data = [0; DATA_LEN];
        record.emit(&mut data);
        Self {
            data,
            size: T::SIZE.next_multiple_of(OFFSET_UNIT),
        }
    }
}

/// What is in a place where a query looks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<T> {
    /// A record that is asked for.
    Record(T),
    /// No such record.
    Nothing,
    /// The same, nor in the places after it up to this one.
    NothingBefore(usize),
    /// There are no more places.
    End,
}

impl<T: Record> Found<T> {
    fn answer(self) -> Found<Answer> {
        match self {
            Self::Record(record) => Found::Record(Answer::of(&record)),
            Self::Nothing => Found::Nothing,
            Self::NothingBefore(place) => Found::NothingBefore(place),
            Self::End => Found::End,
        }
    }
}

/// Where a query looks.
#[derive(Clone, Copy, Debug)]
enum Query {
    Paths(Ends),
    PathsOfPairs(Pairs),
    Nodes,
    Ports,
    Managers,
    Guids,
    Groups,
    Services,
}

impl Query {
    /// The size of the records in a table.
    const fn size(self) -> usize {
        let size = match self {
            Self::Paths(_) | Self::PathsOfPairs(_) => PathRecord::SIZE,
            Self::Nodes => NodeRecord::SIZE,
            Self::Ports => PortInfoRecord::SIZE,
            Self::Managers => SmInfoRecord::SIZE,
            Self::Guids => GuidInfoRecord::SIZE,
            Self::Groups => McMemberRecord::SIZE,
            Self::Services => ServiceRecord::SIZE,
        };
        size.next_multiple_of(OFFSET_UNIT)
    }

    /// The largest number of records to tell.
    const fn limit(self) -> usize {
        match self {
            Self::PathsOfPairs(pairs) => pairs.limit,
            _ => usize::MAX,
        }
    }

    /// The attribute that the answer is made of.
    const fn attribute(self, asked: u16) -> u16 {
        match self {
            Self::PathsOfPairs(_) => attr::PATH_RECORD,
            _ => asked,
        }
    }
}

/// How far the query of the first request is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    query: Option<Query>,
    /// Who asks has been told that the request has arrived.
    acknowledged: bool,
    /// The next place.
    place: usize,
    /// The record that was found, for a Get.
    found: Option<Answer>,
    /// Where the table is made, and how much room there is.
    start: usize,
    room: usize,
    used: usize,
}

impl Job {
    pub(super) const NONE: Self = Self {
        query: None,
        acknowledged: false,
        place: 0,
        found: None,
        start: 0,
        room: 0,
        used: 0,
    };
}

/// What was done about a request.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "it is a record, which is consumed at once"
)]
enum Outcome {
    Answer(Answer),
    /// A table is on its way.
    Table,
    /// There is more to be done.
    Later,
}

/// The method of the answer to one.
const fn response(code: u8) -> u8 {
    match code {
        method::SET => method::GET_RESP,
        sa_method::GET_TRACE_TABLE => sa_method::GET_TABLE_RESP,
        code => code | method::RESPONSE,
    }
}

impl<S: Storage> Agent<S> {
    /// Does the next thing for the request that waits longest; `None` if there is none.
    pub(super) fn serve<M: sm::Storage>(
        &mut self,
        manager: &mut Manager<M>,
        now: Instant,
    ) -> Option<Next> {
        let request = self.inbox.first()?;
        if request.is_segment() && !core::mem::replace(&mut self.job.acknowledged, true) {
            return Some(Next::Send(acknowledgement(&request)));
        }
        let outcome = self.answer(manager, &request, now);
        if matches!(outcome, Ok(Outcome::Later)) {
            return Some(Next::Again);
        }
        self.inbox.pop();
        self.job = Job::NONE;
        self.report.requests = self.report.requests.saturating_add(1);
        let mut sa = request.sa().clone();
        let mut header = answer_header(&request);
        match outcome {
            Ok(Outcome::Answer(answer)) => {
                *sa.data_mut() = answer.data;
                sa.set_attribute_offset((answer.size / OFFSET_UNIT) as u16);
            }
            Ok(_) => return Some(Next::Again),
            Err(Refusal(status)) => {
                header.status = status;
                sa.set_attribute_offset(0);
                self.report.refused = self.report.refused.saturating_add(1);
            }
        }
        sa.set_header(&header);
        sa.set_rmpp(&Rmpp::default());
        sa.set_sm_key(0);
        Some(Next::Send(Transmit {
            mad: *sa.as_bytes(),
            to: request.from,
        }))
    }

    #[inline(never)]
    fn answer<M: sm::Storage>(
        &mut self,
        manager: &mut Manager<M>,
        request: &Request,
        now: Instant,
    ) -> Result<Outcome, Refusal> {
        let header = request.sa().header();
        if (header.base_version, header.class_version) != (BASE_VERSION, CLASS_VERSION_2) {
            return Err(Refusal(status::BAD_VERSION));
        }
        if !matches!(
            header.method,
            method::GET
                | method::SET
                | sa_method::GET_TABLE
                | sa_method::GET_TRACE_TABLE
                | sa_method::GET_MULTI
                | sa_method::DELETE
        ) {
            return Err(Refusal(status::METHOD_UNSUPPORTED));
        }
        if request.sa().sm_key() != 0 && !self.is_trusted(request) {
            return Err(Refusal(sa_status::DENIED));
        }
        let answer = match (header.method, header.attr_id) {
            (method::GET, mad::attr::CLASS_PORT_INFO) => Answer::of(&self.class_port_info()),
            (method::SET, attr::MC_MEMBER_RECORD) => self.join(manager, request)?,
            (sa_method::DELETE, attr::MC_MEMBER_RECORD) => self.leave(manager, request)?,
            (method::SET, attr::SERVICE_RECORD) => self.register(manager, request, now)?,
            (sa_method::DELETE, attr::SERVICE_RECORD) => self.deregister(manager, request)?,
            (method::SET, mad::attr::INFORM_INFO) => self.subscribe(manager, request)?,
            (sa_method::GET_MULTI, attr::MULTI_PATH_RECORD)
            | (method::GET | sa_method::GET_TABLE, _) => return self.query(manager, request, now),
            _ => return Err(Refusal(status::ATTRIBUTE_UNSUPPORTED)),
        };
        Ok(Outcome::Answer(answer))
    }

    fn class_port_info(&self) -> ClassPortInfo {
        ClassPortInfo {
            base_version: BASE_VERSION,
            class_version: CLASS_VERSION_2,
            capability_mask: ClassPortInfo::CAP_MASK2
                | cap::UD_MULTICAST
                | cap::MULTI_PATH
                | cap::PORT_INFO_CAPMASK_MATCH,
            capability_mask2: cap::SEND_ONLY_FULL_MEMBER,
            resp_time: self.config.resp_time,
            ..ClassPortInfo::default()
        }
    }

    /// Goes on with the query of the first request.
    #[inline(never)]
    fn query<M: sm::Storage>(
        &mut self,
        manager: &Manager<M>,
        request: &Request,
        now: Instant,
    ) -> Result<Outcome, Refusal> {
        let is_table = request.sa().header().method != method::GET;
        let mut job = self.job;
        let query = match job.query {
            Some(query) => query,
            None => {
                let query = self.begin_query(manager, request)?;
                if is_table {
                    let room = self.transfers.room();
                    (job.start, job.room) = room.ok_or(Refusal(status::BUSY))?;
                }
                job.query = Some(query);
                query
            }
        };
        let most = query.limit().saturating_mul(query.size());
        for _ in 0..BUDGET {
            if job.used >= most {
                return self.end_query(request, &job, query, is_table, now);
            }
            let mut next = job.place.saturating_add(1);
            let answer = match self.look(manager, request, query, job.place) {
                Found::End => return self.end_query(request, &job, query, is_table, now),
                Found::Nothing => None,
                Found::NothingBefore(place) => {
                    next = place;
                    None
                }
                Found::Record(answer) => Some(answer),
            };
            job.place = next;
            let Some(answer) = answer else {
                continue;
            };
            if is_table {
                let end = job.used.saturating_add(answer.size);
                let at = job.start.saturating_add(job.used);
                let room = self
                    .transfers
                    .part(at, answer.size)
                    .filter(|_| end <= job.room)
                    .ok_or(Refusal(sa_status::NO_RESOURCES))?;
                for (to, byte) in room.iter_mut().zip(answer.data) {
                    *to = byte;
                }
                job.used = end;
            } else if job.found.replace(answer).is_some() {
                return Err(Refusal(sa_status::TOO_MANY_RECORDS));
            }
        }
        self.job = job;
        Ok(Outcome::Later)
    }

    fn end_query(
        &mut self,
        request: &Request,
        job: &Job,
        query: Query,
        is_table: bool,
        now: Instant,
    ) -> Result<Outcome, Refusal> {
        if !is_table {
            let found = job.found.ok_or(Refusal(sa_status::NO_RECORDS))?;
            return Ok(Outcome::Answer(found));
        }
        let header = answer_header(request);
        let title = Title {
            to: request.from,
            header: MadHeader {
                attr_id: query.attribute(header.attr_id),
                ..header
            },
            attribute_offset: (query.size() / OFFSET_UNIT) as u16,
            component_mask: request.sa().component_mask(),
        };
        self.transfers.start(title, job.start, job.used, now);
        Ok(Outcome::Table)
    }

    fn begin_query<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        request: &Request,
    ) -> Result<Query, Refusal> {
        let header = request.sa().header();
        let is_multi = header.method == sa_method::GET_MULTI;
        Ok(match header.attr_id {
            attr::PATH_RECORD => Query::Paths(self.ends(manager, request)?),
            attr::MULTI_PATH_RECORD if is_multi => {
                Query::PathsOfPairs(self.pairs(manager, request)?)
            }
            attr::NODE_RECORD => Query::Nodes,
            attr::PORT_INFO_RECORD => Query::Ports,
            attr::SM_INFO_RECORD => Query::Managers,
            attr::GUID_INFO_RECORD => Query::Guids,
            attr::MC_MEMBER_RECORD => Query::Groups,
            attr::SERVICE_RECORD => Query::Services,
            _ => return Err(Refusal(status::ATTRIBUTE_UNSUPPORTED)),
        })
    }

    fn look<M: sm::Storage>(
        &self,
        manager: &Manager<M>,
        request: &Request,
        query: Query,
        place: usize,
    ) -> Found<Answer> {
        let trusted = self.is_trusted(request);
        match query {
            Query::Paths(ends) => self.path(manager, request, ends, place).answer(),
            Query::PathsOfPairs(pairs) => {
                self.path_of_pair(manager, request, &pairs, place).answer()
            }
            Query::Nodes => super::records::node(manager, request, place).answer(),
            Query::Ports => super::records::port(manager, request, place, trusted).answer(),
            Query::Managers => super::records::subnet_manager(manager, request, place).answer(),
            Query::Guids => super::records::guids(manager, request, place).answer(),
            Query::Groups => self.group_record(manager, request, place, trusted).answer(),
            Query::Services => {
                let found = self.services.look(manager, request, place, trusted);
                found.answer()
            }
        }
    }
}

/// What tells that a request that is one segment has arrived; the answer begins with one segment.
fn acknowledgement(request: &Request) -> Transmit {
    let mut sa = Sa::new(&answer_header(request));
    sa.set_rmpp(&Rmpp {
        version: rmpp::VERSION,
        kind: rmpp::kind::ACK,
        resp_time: rmpp::NO_RESP_TIME,
        flags: rmpp::flag::ACTIVE,
        status: rmpp::status::NORMAL,
        data1: 1,
        data2: 1,
    });
    Transmit {
        mad: *sa.as_bytes(),
        to: request.from,
    }
}

/// The header of what answers a request well.
fn answer_header(request: &Request) -> MadHeader {
    let header = request.sa().header();
    MadHeader {
        base_version: BASE_VERSION,
        class_version: CLASS_VERSION_2,
        method: response(header.method),
        status: status::OK,
        ..header
    }
}
