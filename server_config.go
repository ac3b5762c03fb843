package nfsrdma

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcsec"
	"github.com/nfsrdma/nfsrdma/rpctls"
)

// ServerConfig configures a Server. The zero value of each field is a usable
// default; a server without Exports has nothing to mount.
type ServerConfig struct {
	// Exports are the file systems that clients can mount. The Server does not
	// close them.
	Exports []nfsserver.Export

	// Key seals file handles. It must be secret, and the same after a restart.
	// Zero means a random key: clients must then mount again after a restart.
	Key [32]byte

	// Names resolves the names of clients in Exports; nil means that no host
	// has a name.
	Names exports.Names

	// Groups, if not nil, returns the groups of a user on this host for a
	// client's call, in place of the at most 16 groups in the call
	// (nfsserver.Config.Groups).
	Groups func(ctx context.Context, client netip.Addr, uid uint32) ([]uint32, error)

	// MaxPayload is the greatest number of bytes of one READ or WRITE; 0 means
	// 1 MiB. A value below 4 KiB or above 4 MiB is an error.
	MaxPayload int

	// Inline is the length in bytes of the longest message sent without RDMA
	// (RFC 8797); 0 means 4096.
	Inline int

	// Credits is the number of calls that each RDMA connection may have under
	// way; 0 means 128.
	Credits int

	// MaxConns bounds the RDMA connections, of which one party gets seven
	// eighths (rpcrdma.Server); 0 means rpcrdma.DefaultMaxConns.
	MaxConns int

	// Lease is how long a client that caches under delegations may be silent,
	// and so how long a silent client can hold up changes; 0 means 10 s. For
	// directories of the host it should be at most a third of
	// fs.lease-break-time.
	Lease time.Duration

	// Lease4 is how long a client of version 4 may be silent, and how long it may
	// take to return a delegation; 0 means DefaultLease4. It is a whole number of
	// seconds, and MaxLease4 at most. For directories of the host it should be at
	// most 5 s less than fs.lease-break-time.
	Lease4 time.Duration

	// Marker is the path of a file that tells the next start that clients may
	// hold delegations; "" means none: if a server restarts while a client is
	// cut off, the client's cache can then become stale for a Lease.
	Marker string

	// Clients is the path of a file with the clients of version 4 that have
	// files open or locked, in a directory that exists and that no other server
	// uses. After a restart these clients reclaim their files and locks. ""
	// means none: opens are lost with the server, and so are locks, which other
	// clients may then take at once, and changes do not wait for clients that still
	// trust delegations: their caches can become stale until they hear of the restart.
	Clients string

	// StandardsOnly offers clients nothing of this project's own: no
	// delegations, and FPDUs no longer than a TCP segment.
	StandardsOnly bool

	// Minors are the minor versions of NFS version 4 to serve besides version
	// 3: any of 0, 1 and 2. Nil means all, and an empty slice means none.
	Minors []uint32

	// NoDelegations keeps clients of version 4 from getting delegations, by which
	// they open and read files without calls.
	NoDelegations bool

	// WriteDelegations lets clients of version 4 get delegations for writing too, by
	// which they write and lock files without calls, of files in exclusive exports.
	WriteDelegations bool

	// Owners, if not nil, translates the numbers of users and groups to and
	// from names in version 4; nil means numbers. The caller closes it after
	// the Server.
	Owners *idmap.Map

	// Security, if not nil, makes security contexts for clients, and verifies and
	// decrypts their calls (RPCSEC_GSS): exports may then take Kerberos. Its Log is
	// ignored. Nil means that calls of RPCSEC_GSS are denied.
	Security *rpcsec.ServerConfig

	// TLS, if not nil, makes TCP connections secure if their clients ask for that (RFC
	// 9289): exports may then demand it (xprtsec= of exports(5)). The caller watches its
	// files.
	TLS *rpctls.Server

	// RDMATLS lets clients use TLS below MPA, and OnlyRDMATLS rejects all other
	// connections on RDMA. Both need TLS.
	RDMATLS, OnlyRDMATLS bool

	// OnlyEncrypted refuses all calls that others can read on their way: every export
	// then needs TLS, or calls with krb5p, whatever its clients' options are. Without a
	// file they can ask for handles (MNT), and with krb5i make clients and sessions of
	// version 4, as Linux does.
	OnlyEncrypted bool

	// IWARP configures RDMA connections. LongFPDUs, ShortFPDUs, Secure and OnlySecure
	// are set by NewServer.
	IWARP iwarp.Config

	// Wrap, if not nil, returns the service that handles all calls in place of
	// next, for instance an observer that counts them and calls next.
	Wrap func(next oncrpc.Service) oncrpc.Service

	// Trace, if not nil, returns a Trace for each call that arrives over RDMA or TCP. A
	// Service of Wrap finds it in Reply.Trace.
	Trace func() oncrpc.Trace

	// Log receives messages for the administrator; nil means slog.Default().
	Log *slog.Logger
}

// DefaultLease4 and MaxLease4 are values of ServerConfig.Lease4.
const (
	DefaultLease4 = 40 * time.Second
	MaxLease4     = time.Hour
)
