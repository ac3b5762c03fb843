// Package tenure holds the time until which a process may serve.
//
//	beat succeeds ─Extend─▶ word ◀─Over─ gates: calls, replies, atomic operations, records
//
// Another host takes over after that time. A process that was stopped, or whose
// machine was suspended, must therefore read the word and the clock again before
// everything that a client or the next host could see. The package must not know
// who extends the word, nor what follows its end.
package tenure
