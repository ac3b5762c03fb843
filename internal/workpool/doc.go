// Package workpool runs tasks on goroutines that stay for the next one, so that a
// call costs neither a new goroutine nor the growth of a new stack.
//
//	Go(task) ─▶ idle worker? ──yes──▶ wakes it ──▶ task.Run ──▶ idle again
//	                 └──no──▶ new goroutine ────────┘   └─▶ ends, where
//	                                                        enough are idle
//
// A pool does not bound how many tasks run at once and has no queue: a task
// that waits for another therefore never waits for a place. Bounds belong to
// those who know what a task costs.
//
// The package must not know what the tasks do.
package workpool
