//! Readiness, scenario by scenario: `readiness list` names them, `readiness NAME` runs one and prints
//! what every call gave. The transcript must be the same on kernel TCP and on rings.

mod early;
mod fairness;
mod nested;
mod numbers;
mod order;
mod processes;
mod removed;
mod set;
mod sets;
mod states;
mod threads;
mod triggers;
mod world;

/// A scenario and its name.
type Scenario = (&'static str, fn());

macro_rules! scenarios {
    ($($module:ident: $($name:ident)*;)*) => {
        &[$($((concat!(stringify!($module), "::", stringify!($name)), $module::$name)),*),*]
    };
}

const SCENARIOS: &[Scenario] = scenarios! {
    states: quiet_and_with_data half_closed reading_shut reading_shut_unseen shut_both_ways peer_closed
        peer_closed_with_bytes_for_us peer_closed_with_bytes_unread reset_by_linger urgent_byte
        receive_low_water_mark full_and_drained never_connected closed_number;
    triggers: level edge_input edge_both_ways edge_output edge_blocked_with_unread_input one_shot
        one_shot_output urgent_edge low_water_mark member_before_it_moves;
    sets: several_sets duplicated_set errors any_data told_once_when_another_leaves twin_shots;
    nested: loops nested_sets nested_edges polled_set_wakes;
    numbers: closed_with_duplicate closed_alone replaced_number all_numbers_by_select high_numbers;
    removed: added_again moved in_an_inner_set changed_meanwhile used_by_a_child;
    early: before_connect before_connect_and_never_again changed_before_connect unusual_before_connect
        several_sets_before_connect duplicated_before_connect repeated_connect listens_instead
        shared_before_connect young_member_kept_over_exec waited_for_during_connect;
    fairness: one_at_a_time busy_connection_and_pipe busy_pipe_and_connection timeouts;
    order: on_rings on_both after_a_new_one;
    threads: edge_events_come_once one_shot_comes_once one_shot_for_a_sleeper level_wakes_all accelerated_while_they_sleep
        changes_while_waiting stalled_consumer;
    processes: set_used_by_child set_used_by_both set_of_a_daemon set_passed_on set_kept_over_exec
        closed_while_a_child_holds_it killed_peer young_members_of_a_daemon;
};

fn main() {
    let name = std::env::args().nth(1).expect("the name of a scenario");
    if name == "list" {
        SCENARIOS.iter().for_each(|(name, _)| println!("{name}"));
        return;
    }
    if name == "exec" {
        return processes::after_exec();
    }
    if name == "exec-young" {
        return early::after_exec();
    }
    let scenario = SCENARIOS.iter().find(|scenario| scenario.0 == name);
    scenario.expect("a known scenario").1();
}
