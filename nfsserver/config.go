package nfsserver

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"path"
	"strings"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// Config says what a Server serves.
type Config struct {
	Exports []Export

	// MaxPayload is the most octets of one READ or WRITE; 0 means 1 MiB;
	// below 4 KiB and above 4 MiB is an error.
	MaxPayload int

	// Key seals file handles, so that clients can use those alone that they
	// were given. It must stay when the server starts again, and nobody
	// else may know it. Zero means a random one: handles end with the Server,
	// as NFS3ERR_STALE.
	Key [32]byte

	// Names tells what hosts are called, for clients that are named so; nil
	// means that nobody has a name.
	Names exports.Names

	// Groups, if not nil, tells the groups of a user on this host, which take
	// the place of those that a call names: AUTH_SYS has room for 16. It is
	// asked for every call, and should wait for a bounded time only; after an
	// error the client is told to come again. UserGroups.Of is one.
	Groups func(ctx context.Context, uid uint32) ([]uint32, error)

	// Grants keeps what clients hold by delegation counters; nil means that
	// nobody holds anything. The Server does not close it.
	Grants *delegserver.Keeper

	// Log is told of errors of file systems that NFS has no word for; nil
	// means none.
	Log *slog.Logger
}

// An Export is a file system that clients can mount. The zero value of all
// but Path and FS is right: everyone may read and write, the superuser as
// nobody.
type Export struct {
	// Path is the name that clients mount: absolute and clean, at most
	// 1024 octets. Directories below it can be mounted too.
	Path string

	// FS is what is served. The Server does not close it.
	FS vfs.FS

	// Clients is who may use the export, and how; exports.Find tells which
	// of them a peer is. Empty means everyone, from any port.
	Clients []exports.Client

	// ID is the export's identity in file handles, which must stay when
	// the server starts again. 0 means the 32-bit FNV-1a hash of Path.
	ID uint32

	// Released is called once SetExports has taken the export away, or given
	// it another FS, and no call uses FS any more: it can be closed then.
	// It may be called while SetExports runs. It may be nil.
	Released func()
}

func (c *Config) payload() (int, error) {
	switch n := c.MaxPayload; {
	case n == 0:
		return defaultPayload, nil
	case n < minPayload || n > maxPayload:
		return 0, fmt.Errorf("nfsserver: MaxPayload %d is not in %d to %d", n, minPayload, maxPayload)
	default:
		return n, nil
	}
}

func (e *Export) check() error {
	switch {
	case e.FS == nil:
		return fmt.Errorf("nfsserver: export %q has no file system", e.Path)
	case !path.IsAbs(e.Path) || path.Clean(e.Path) != e.Path || strings.ContainsRune(e.Path, 0):
		return fmt.Errorf("nfsserver: export path %q is not absolute and clean", e.Path)
	case len(e.Path) > mount3.PathLen:
		return fmt.Errorf("nfsserver: export path %.40q… is longer than %d octets", e.Path, mount3.PathLen)
	}
	for _, c := range e.Clients {
		if k := c.Host.Kind; (k == exports.Address || k == exports.Network) && !c.Host.Net.IsValid() {
			return fmt.Errorf("nfsserver: export %q has an invalid client network", e.Path)
		}
	}
	return nil
}

// id returns the export's identity.
func (e *Export) id() uint32 {
	if e.ID != 0 {
		return e.ID
	}
	h := fnv.New32a()
	h.Write([]byte(e.Path)) // never fails
	return h.Sum32()
}
