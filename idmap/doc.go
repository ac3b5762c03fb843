// Package idmap translates between numbers of users and groups and the owner
// strings of NFS version 4, name@domain, by the host's user database (RFC 8881,
// Section 5.9).
//
//	owner string ─▶ number? ───yes──────────────────────▶ number
//	                  └─no─▶ name@domain? ─▶ cache, host ─▶ number, or none
//	number ─▶ cache, host ─▶ name@domain, or the number in digits
//
// The package must not know files and calls.
package idmap
