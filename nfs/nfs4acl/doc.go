// Package nfs4acl maps access control lists between two models: NFSv4's (RFC
// 8881, Section 6), whose entries are evaluated in order, and POSIX 1003.1e's,
// which hosts store and enforce. The mapping follows
// draft-ietf-nfsv4-acl-mapping, as implemented in Linux's server.
//
//	POSIX                                   NFS version 4, in this order
//	user::                                  OWNER@     deny, allow
//	user:ID:      and the mask              ID         deny, allow
//	group::       and the mask              GROUP@     allow     ┐ first all that groups
//	group:ID:     and the mask              ID, group  allow     │ allow, because a user may
//	                                        GROUP@     deny      │ be in several; then all
//	                                        ID, group  deny      ┘ that groups deny
//	other::                                 EVERYONE@  allow
//	default list                            the same, as entries that are only inherited
//
// A deny entry denies no more than later entries would allow.
//
// FromPOSIX is exact: the entries grant a right to a user if the host does.
// ToPOSIX is safe: the host grants no right that the entries do not. If the
// stored list cannot represent the entries, it grants less. A denial that a host
// cannot enforce is rejected (ErrUnsupported): hosts let everyone read
// attributes. The owner's rights to change the list, mode and times are an owner
// override (RFC 8881, Section 6.3.1.1).
//
// The package must not know user names, file systems or messages.
package nfs4acl
