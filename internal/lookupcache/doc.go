// Package lookupcache caches answers from slow services, such as name and user
// lookups. A caller does not wait for an answer that was recently known: it gets
// the old answer while the service is queried again. Concurrent callers share one
// question. The numbers of outstanding questions and cached answers are bounded.
//
//	Of ─▶ fresh ───────────────────▶ answer
//	   ─▶ old ────────┬────────────▶ answer
//	   ─▶ none yet ─┐ └▶ Ask, unless in flight
//	                └──▶ Ask ─ wait ▶ answer
//
// It must not depend on the meaning of the questions.
package lookupcache
