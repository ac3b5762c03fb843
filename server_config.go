package nfsrdma

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

// ServerConfig configures a Server. The zero value of each field is a usable default.
type ServerConfig struct {
	// Exports are the file systems that clients can mount. The Server does not
	// close them.
	Exports []nfsserver.Export

	// Key authenticates file handles. It must be secret, and the same after a restart.
	// Zero means a random key: clients must then remount after a restart.
	Key [32]byte

	// Names resolves client host names in Exports; nil means that no host has a name.
	Names exports.Names

	// Groups, if not nil, returns the groups that a user has on this host. They replace
	// the groups in a call, which are 16 at most (nfsserver.Config.Groups).
	Groups func(ctx context.Context, client netip.Addr, uid uint32) ([]uint32, error)

	// MaxPayload is the maximum number of bytes in one READ or WRITE, from 4 KiB to 4 MiB;
	// 0 means 1 MiB.
	MaxPayload int

	// Inline is the maximum length in bytes of messages sent without RDMA operations
	// (RFC 8797); 0 means 4096.
	Inline int

	// Credits is the maximum number of pending calls on an RDMA connection; 0 means 128.
	Credits int

	// MaxConns is the maximum number of RDMA connections, seven eighths of which may be
	// from one party (rpcrdma.Server); 0 means rpcrdma.DefaultMaxConns.
	MaxConns int

	// Lease is how long a client with this project's delegations may be silent before it
	// loses them, and thus how long it can block changes; 0 means 10 s. For directories of
	// the host it should be at most a third of fs.lease-break-time.
	Lease time.Duration

	// Lease4 is how long a version 4 client may be silent, and how long it may take to
	// return a delegation; 0 means DefaultLease4. It must be a whole number of seconds and
	// at most MaxLease4. For directories of the host it should be at least 5 s less than
	// fs.lease-break-time.
	Lease4 time.Duration

	// Clients is the path of a file that lists the NFSv4 clients with open or locked
	// files, and says whether clients may hold this project's delegations. Its directory
	// must exist, and no other server may use the file. After a restart the NFSv4 clients
	// reclaim their files and locks, and changes wait for clients that may still trust
	// delegations. "" means none: a restart then loses opens and locks, which other clients
	// may take at once, and clients with delegations can have stale caches: with NFSv4 until
	// they notice the restart, with this project's for a Lease.
	Clients string

	// StandardsOnly disables this project's own protocol extensions: its delegations, and
	// FPDUs longer than a TCP segment.
	StandardsOnly bool

	// Minors are the minor versions of NFS version 4 to serve: any of 0, 1 and 2. Nil means
	// all, and an empty slice means none.
	Minors []uint32

	// NoNFS3 disables version 3, and with it MOUNT, NFSACL, NLM, NSM and this project's
	// delegations, which only version 3 clients have. Minors must not be empty then.
	NoNFS3 bool

	// NoDelegations disables version 4 delegations, with which clients open and read files
	// without calls.
	NoDelegations bool

	// WriteDelegations enables version 4 write delegations for files in exclusive exports.
	// With them clients write and lock files without calls.
	WriteDelegations bool

	// Owners, if not nil, translates between user and group numbers and names in version
	// 4; nil means numbers. The caller closes it after the Server.
	Owners *idmap.Map

	// Security, if not nil, enables RPCSEC_GSS, which exports with Kerberos flavors need.
	// Its Log is ignored. Nil means that RPCSEC_GSS calls are denied.
	Security *rpcsec.ServerConfig

	// TLS, if not nil, enables TLS on TCP connections whose clients request it (RFC 9289):
	// exports may then require it (xprtsec= of exports(5)). The caller watches its files.
	TLS *rpctls.Server

	// RDMATLS permits TLS below MPA, and OnlyRDMATLS rejects all other RDMA connections.
	// Both need TLS.
	RDMATLS, OnlyRDMATLS bool

	// OnlyEncrypted denies unencrypted calls: every export then requires TLS or krb5p,
	// whatever its clients' options are. Unencrypted calls can still get handles (MNT), and
	// with krb5i create NFSv4 clients and sessions, as Linux does.
	OnlyEncrypted bool

	// IWARP configures RDMA connections. LongFPDUs, ShortFPDUs, Secure, OnlySecure
	// and Foreign are set by NewServer.
	IWARP iwarp.Config

	// Wrap, if not nil, returns the service that handles all calls instead of next, for
	// instance an observer that counts them and calls next.
	Wrap func(next oncrpc.Service) oncrpc.Service

	// Trace, if not nil, returns a Trace for each arriving call, or nil. A
	// Service of Wrap finds it in Reply.Trace.
	Trace func() oncrpc.Trace

	// Tenure, if not nil, is the time until which the Server may serve, of a host that another one
	// replaces. Afterwards no call is executed and no reply or callback sent, nothing is written to
	// Clients, and connections that carry calls are reset. IWARP.Tenure is set by NewServer.
	Tenure *tenure.Tenure

	// Log receives messages for the administrator; nil means slog.Default().
	Log *slog.Logger
}

// Default and maximum of ServerConfig.Lease4.
const (
	DefaultLease4 = 40 * time.Second
	MaxLease4     = time.Hour
)
