// Package workpool runs tasks on goroutines that it reuses for later tasks, so that
// a call costs neither a new goroutine nor the growth of a new stack.
//
//	Go(task) ─▶ idle worker? ──yes──▶ wakes it ──▶ task.Run ──▶ idle again
//	                 └──no──▶ new goroutine ────────┘   └─▶ ends, if
//	                                                        enough are idle
//
// A pool does not bound the number of running tasks and has no queue: a task that
// waits for another task therefore never waits for a worker. Callers that know the
// cost of tasks must set bounds.
//
// The package must not depend on the work of the tasks.
package workpool
