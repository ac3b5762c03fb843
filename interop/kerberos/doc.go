// Package kerberos lets tests meet MIT's Kerberos: a KDC on loopback, and a peer
// that makes and takes tokens by MIT's library.
//
//	KDC (krb5kdc) ◀── tickets ── peer.py (python3-gssapi, libgssapi_krb5)
//	   │ keytab                      │ tokens
//	   ▼                             ▼
//	krb5.Acceptor ◀───────────────── test
//
// Everything is in the test's directory; the host's own configuration is not read. The
// token and nfsrdmad tests need neither root nor a virtual machine. Those of Linux share
// a guest with rpc.gssd, and need root, and TCP port 2049, which rpc.gssd asks: root's
// tests have a network of their own. Tests with several users of this host need root too.
// The package must not know NFS but in its tests of nfsrdmad and of Linux's server.
package kerberos
