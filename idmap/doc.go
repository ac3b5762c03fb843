// Package idmap translates between numbers of users and groups and the owner
// strings of NFS version 4, name@domain (RFC 8881, Section 5.9), and from
// principals of Kerberos to users, by the host's user database and the rules of
// idmapd.conf(5).
//
//	owner string ─▶ number? ───yes──────────────────────▶ number
//	                  └─no─▶ name@domain? ─▶ cache, host ─▶ number, or none
//	number ─▶ cache, host ─▶ name@domain, or the number in digits
//
//	principal ─▶ [Static]? ──────────────▶ cache, host ─▶ user and groups
//	          └▶ one component, local realm? ─▶ cache, host ─▶ user and groups, or nobody
//
// The names come from strangers. A name reaches the database only if the database
// cannot take it for anything but a name, and an answer counts only if it is about
// that name.
//
// The package must not know files and calls.
package idmap
