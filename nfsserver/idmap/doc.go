// Package idmap translates between user and group numbers and NFSv4 owner
// strings, name@domain (RFC 8881, Section 5.9), and from
// Kerberos principals to users, with the host's user database and the rules in
// idmapd.conf(5).
//
//	owner string ─▶ number? ───yes──────────────────────▶ number
//	                  └─no─▶ name@domain? ─▶ cache, host ─▶ number, or none
//	number ─▶ cache, host ─▶ name@domain, or the number in digits
//
//	principal ─▶ [Static]? ──────────────▶ cache, host ─▶ user and groups
//	          └▶ one component, local realm? ─▶ cache, host ─▶ user and groups, or nobody
//
// The names come from untrusted clients. A name reaches the database only if the database
// cannot take it for anything but a name, and a reply counts only if it is about
// that name.
//
// The package must not depend on files or calls.
package idmap
