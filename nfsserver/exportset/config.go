package exportset

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"path"
	"strings"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// Config configures a Set.
type Config struct {
	Exports []Export

	// MaxPayload is the maximum number of bytes in one READ or WRITE; 0 means 1 MiB. A value
	// below 4 KiB or above 4 MiB is an error.
	MaxPayload int

	// Key seals file handles, so that clients can use only handles that they were given. It
	// must stay the same across restarts of the server, and must be secret. Zero means a random
	// key: handles then become stale with the end of the Set.
	Key [32]byte

	// Names resolves host names, for clients given by name; nil means that no host has a name.
	Names exports.Names

	// Groups, if not nil, returns a user's groups on this host, for a client's call. They
	// replace the groups in a call, because AUTH_SYS has space for only 16. Groups is called
	// for every call, and should wait only for a bounded time; after an error the client is
	// told to try again. UserGroups.Of is an implementation.
	Groups func(ctx context.Context, client netip.Addr, uid uint32) ([]uint32, error)

	// Grants manages clients' counter delegations; nil means that no client gets
	// any. The Set does not close it.
	Grants *delegserver.Keeper

	// Holders contains the NFSv4 delegations; nil means that there are none. With Grants, it
	// must be Grants.Holders(), or nil.
	Holders *recall.Table

	// DefersChange, if not nil, reports whether a change must be deferred, because clients may
	// still trust delegations from before a restart. byState is set for a change with an NFSv4
	// open or delegation, and for opening a file to change it.
	DefersChange func(byState bool) bool

	// Tenure, if not nil, is the time until which calls may use the file systems. Afterwards they
	// fail with Later, also those that wait for a holder or a permit when it ends.
	Tenure *tenure.Tenure

	// Log receives file system errors for which a program has no status; nil means no log.
	Log *slog.Logger
}

// An Export is a file system that clients can mount. Path and FS are required. The zero value
// of the other fields lets every client read and write, the superuser as nobody.
type Export struct {
	// Path is the name that clients mount: absolute and clean, at most 1024 bytes. Clients can
	// also mount directories below it.
	Path string

	// FS is the served file system, or Unavailable. The Set does not close it.
	FS vfs.FS

	// Clients lists the clients that may use the export, with their options; exports.Find
	// matches a peer. Empty means every client, from any port.
	Clients []exports.Client

	// ID identifies the export in file handles. It must stay the same across restarts of the
	// server. 0 means the 32-bit FNV-1a hash of Path.
	ID uint32

	// Submount marks a file system that is mounted below the directory of another export: the
	// nearest one above Path. Clients has that export's clients. Those with crossmnt see FS in
	// the other export, and the others the directory on which it is mounted. MOUNT does not list
	// the export.
	Submount bool

	// RootID, if not 0, identifies the root directory in file handles in place of ID and FS's handle,
	// so that the handle stays valid when another file system is mounted there, or none. No other
	// ID equals it.
	RootID uint32

	// MountedOn is the fileid of the directory that FS's root covers in the export above; 0 means
	// that it is unknown.
	MountedOn uint64

	// Released is called once SetExports has removed the export, or given it another FS, and no
	// call uses FS any more: FS can then be closed. Released may be called while SetExports
	// runs. It may be nil.
	Released func()
}

// changeTable returns the Table in which changes are announced, or nil.
func (c *Config) changeTable() (*recall.Table, error) {
	switch {
	case c.Grants == nil:
		return c.Holders, nil
	case c.Holders != nil && c.Holders != c.Grants.Holders():
		return nil, errors.New("exportset: Grants and Holders have different tables")
	}
	return c.Grants.Holders(), nil
}

func (c *Config) payloadSize() (int, error) {
	switch n := c.MaxPayload; {
	case n == 0:
		return defaultPayload, nil
	case n < minPayload || n > maxPayload:
		return 0, fmt.Errorf("exportset: MaxPayload %d is not in %d to %d", n, minPayload, maxPayload)
	default:
		return n, nil
	}
}

func (e *Export) validate() error {
	switch {
	case e.FS == nil:
		return fmt.Errorf("exportset: export %q has no file system", e.Path)
	case !path.IsAbs(e.Path) || path.Clean(e.Path) != e.Path || strings.ContainsRune(e.Path, 0):
		return fmt.Errorf("exportset: export path %q is not absolute and clean", e.Path)
	case len(e.Path) > maxPath:
		return fmt.Errorf("exportset: export path %.40q… is longer than %d bytes", e.Path, maxPath)
	}
	for _, c := range e.Clients {
		if k := c.Host.Kind; (k == exports.Address || k == exports.Network) && !c.Host.Net.IsValid() {
			return fmt.Errorf("exportset: export %q has an invalid client network", e.Path)
		}
	}
	return nil
}

// exportID returns the export's identity.
func (e *Export) exportID() uint32 {
	if e.ID != 0 {
		return e.ID
	}
	h := fnv.New32a()
	h.Write([]byte(e.Path)) // never fails
	return h.Sum32()
}
