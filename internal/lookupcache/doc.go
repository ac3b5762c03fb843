// Package lookupcache caches answers of slow services: of names, of users. A
// caller does not wait for an answer that was recently known: it gets the old
// answer while the service is asked again. Concurrent callers share one
// question. The number of outstanding questions and of kept answers is bounded.
//
//	Of ─▶ fresh ───────────────────▶ answer
//	   ─▶ old ────────┬────────────▶ answer
//	   ─▶ none yet ─┐ └▶ Ask, if nobody does
//	                └──▶ Ask ─ wait ▶ answer
//
// It must not know the meaning of questions.
package lookupcache
