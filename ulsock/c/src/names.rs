//! Names of services.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use native::names::{self, Event, Subscription};

use crate::edge::{self, Address, give, give_object, object, time};
use crate::fiber::{is_alone, wait, within};
use crate::held::Exclusive;
use crate::status::{Error, Result, Status, told, told_if_any};

/// The names that this process can see. Any thread may use them.
pub struct Names(names::Names);

/// A name of this process. It is withdrawn when this is freed, and when the process ends, however it does.
pub struct Registration(#[expect(dead_code)] names::Registration);

/// Hears of names. Any thread may use it, one at a time.
pub struct NameEvents(Exclusive<Subscription>);

/// Where somebody can be reached who has registered a name.
#[repr(C)]
pub struct Place {
    pub address: Address,
    pub instance: u32,
    /// The user that has registered it.
    pub uid: u32,
    /// As the process sees itself, in its own pid namespace.
    pub pid: u32,
    /// The address of the daemon of its host; an empty text: on this host.
    pub host: Address,
}

impl Place {
    fn new(place: names::Place) -> Place {
        Place {
            address: Address::new(place.address),
            instance: place.instance,
            uid: place.uid,
            pid: place.pid,
            host: place.host.map_or(Address::none(), Address::new),
        }
    }
}

/// What has happened to a name.
#[repr(C)]
pub struct NameEvent {
    /// It has appeared; else it has disappeared.
    pub appeared: bool,
    pub place: Place,
}

impl NameEvent {
    fn new(event: Event) -> NameEvent {
        let (appeared, place) = match event {
            Event::Appeared(place) => (true, place),
            Event::Disappeared(place) => (false, place),
        };
        NameEvent {
            appeared,
            place: Place::new(place),
        }
    }
}

impl Names {
    pub fn inner(names: Option<&Names>) -> Result<&names::Names> {
        Ok(&object(names)?.0)
    }
}

/// The names of this user, of root and of the owner of the run directory; or those of all users, any of whom can register any
/// name: look at the `uid` of a place.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_names_open(
    of_all_users: bool,
    names: Option<&mut MaybeUninit<*mut Names>>,
) -> Status {
    told(|| {
        give_object(names, || {
            let own = names::Names::open()?;
            Ok(Names(match of_all_users {
                true => own.of_all_users(),
                false => own,
            }))
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_names_free(names: Option<Box<Names>>) {
    drop(names);
}

/// Registers a name for an address, at which the program should listen already. The programs of a user have each name once on a
/// host: ULSOCK_TAKEN.
///
/// # Safety
/// `service` and `address` are texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_names_register(
    names: Option<&Names>,
    service: *const c_char,
    instance: u32,
    address: *const c_char,
    registration: Option<&mut MaybeUninit<*mut Registration>>,
) -> Status {
    told(|| {
        give_object(registration, || {
            // SAFETY: the caller's word.
            let (service, address) = unsafe { (edge::text(service)?, edge::text(address)?) };
            let address = edge::numeric(address)?;
            let registered = Names::inner(names)?.register(service, instance, address)?;
            Ok(Registration(registered))
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_registration_free(registration: Option<Box<Registration>>) {
    drop(registration);
}

/// Where this instance is: on this host if it can be, first of this user's; else on any other host that has it. ULSOCK_NOT_FOUND
///
/// # Safety
/// `service` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_names_find(
    names: Option<&Names>,
    service: *const c_char,
    instance: u32,
    place: Option<&mut MaybeUninit<Place>>,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let service = unsafe { edge::text(service)? };
        give(
            place,
            Place::new(Names::inner(names)?.find(service, instance)?),
        );
        Ok(())
    })
}

/// Any instance of the service, another one each time: of those on this host if there are any, else of all.
///
/// # Safety
/// `service` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_names_find_any(
    names: Option<&Names>,
    service: *const c_char,
    place: Option<&mut MaybeUninit<Place>>,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let service = unsafe { edge::text(service)? };
        give(place, Place::new(Names::inner(names)?.find_any(service)?));
        Ok(())
    })
}

/// All places of the instances from `first` to `last`, on all hosts, by instance. `count` is how many there are; the first `room`
/// of them are put into `places`.
///
/// # Safety
/// `service` is a text, and `places` has room for `room` places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_names_range(
    names: Option<&Names>,
    service: *const c_char,
    first: u32,
    last: u32,
    places: *mut Place,
    room: usize,
    count: Option<&mut MaybeUninit<usize>>,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let service = unsafe { edge::text(service)? };
        let found = Names::inner(names)?.range(service, first..=last)?;
        // SAFETY: the caller's word.
        let places = unsafe { edge::slots(places, room)? };
        give(count, found.len());
        for (slot, place) in places.iter_mut().zip(found) {
            slot.write(Place::new(place));
        }
        Ok(())
    })
}

/// Hears which of the instances from `first` to `last` appear and disappear; those that are there now appear first.
///
/// # Safety
/// `service` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_names_subscribe(
    names: Option<&Names>,
    service: *const c_char,
    first: u32,
    last: u32,
    events: Option<&mut MaybeUninit<*mut NameEvents>>,
) -> Status {
    told(|| {
        give_object(events, || {
            // SAFETY: the caller's word.
            let service = unsafe { edge::text(service)? };
            let subscription = Names::inner(names)?.subscribe(service, first..=last)?;
            Ok(NameEvents(Exclusive::new(subscription)))
        })
    })
}

/// The next event; ULSOCK_NOTHING if none comes within so many milliseconds (negative: as long as it takes; 0: without waiting).
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_name_events_next(
    events: Option<&NameEvents>,
    milliseconds: i64,
    event: Option<&mut MaybeUninit<NameEvent>>,
) -> Status {
    told_if_any(|| {
        let next = object(events)?
            .0
            .with(|events| next(events, milliseconds))?;
        let any = next.is_some();
        if let Some(next) = next {
            give(event, NameEvent::new(next));
        }
        Ok(any)
    })
}

fn next(events: &mut Subscription, milliseconds: i64) -> Result<Option<Event>> {
    if let Some(event) = events.try_next()? {
        return Ok(Some(event));
    }
    match time(milliseconds) {
        Some(time) if time.is_zero() => Ok(None),
        Some(time) if is_alone() => Ok(events.next_within(time)?),
        Some(time) => within(time, events.event())?
            .transpose()
            .map_err(Error::from),
        None => Ok(Some(wait(events.event())??)),
    }
}

/// For loops that wait by themselves: when this descriptor is readable, ask for events until there is nothing. It belongs to
/// `events`. -1: another call is at work with them.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_name_events_fd(events: Option<&NameEvents>) -> c_int {
    let fd = |events: &NameEvents| events.0.with(|events| Ok(events.as_raw_fd())).ok();
    events.and_then(fd).unwrap_or(-1)
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_name_events_free(events: Option<Box<NameEvents>>) {
    drop(events);
}
