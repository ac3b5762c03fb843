// Package kerberos lets tests meet MIT's Kerberos: a KDC on loopback, and a peer
// that makes and takes tokens by MIT's library.
//
//	KDC (krb5kdc) ◀── tickets ── peer.py (python3-gssapi, libgssapi_krb5)
//	   │ keytab                      │ tokens
//	   ▼                             ▼
//	krb5.Acceptor ◀───────────────── test
//
// Everything lies in a directory of the test; the host's own configuration is not
// read. The package needs neither root nor a virtual machine. It must not know
// NFS but in its tests of nfsrdmad.
package kerberos
