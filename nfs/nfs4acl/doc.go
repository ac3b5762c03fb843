// Package nfs4acl maps access control lists between two models: those of NFS
// version 4 (RFC 8881, Section 6), whose entries are evaluated in their order,
// and those of POSIX 1003.1e, which hosts store and enforce. The mapping is that
// of draft-ietf-nfsv4-acl-mapping, as Linux's server has it.
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
// A deny has no more than later entries would allow.
//
// FromPOSIX is exact: a user has each right by the entries if the host grants the
// right. ToPOSIX is safe: the host grants no right that the entries do not. If
// the stored list cannot say what the entries say, it says less. A denial that a
// host cannot enforce is refused (ErrUnsupported): hosts let everybody read
// attributes. The owner's rights to change list, mode and times are an owner's
// override (RFC 8881, Section 6.3.1.1).
//
// The package must not know names of users, a file system or a message.
package nfs4acl
