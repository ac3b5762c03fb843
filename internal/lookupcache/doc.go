// Package lookupcache remembers what slow services say: of names, of users. Nobody waits
// for an answer that was known not long ago, it is used again while it is asked
// for again; a question is out once, for whoever has it; and how many are out and
// how many answers are kept is bounded.
//
//	Of ─▶ fresh ───────────────────▶ answer
//	   ─▶ old ────────┬────────────▶ answer
//	   ─▶ none yet ─┐ └▶ Ask, if nobody does
//	                └──▶ Ask ─ wait ▶ answer
//
// It must not know what is asked.
package lookupcache
