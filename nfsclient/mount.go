package nfsclient

import (
	"context"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A Mount calls one server's MOUNT version 3 procedures (RFC 1813, Appendix I).
// An error that is not a MountError is an error described at oncrpc.Caller, or
// ErrReply.
type Mount struct {
	caller oncrpc.Caller
	cred   rpcmsg.Cred
	at     string
	conn   io.Closer // nil: the caller owns the connection
}

// NewMount returns a Mount that calls through caller with the credential cred;
// nil means ProcessCred.
func NewMount(caller oncrpc.Caller, cred *rpcmsg.Cred) *Mount {
	if cred == nil {
		c := ProcessCred()
		cred = &c
	}
	return &Mount{caller: caller, cred: *cred}
}

// At returns the address at which a MountSearch found the MOUNT program.
func (m *Mount) At() string { return m.at }

// Caller returns the oncrpc.Caller that m uses. Other MOUNT calls may use it
// too.
func (m *Mount) Caller() oncrpc.Caller { return m.caller }

// Close closes the connection that a MountSearch opened for m, if any.
func (m *Mount) Close() error {
	if m.conn == nil {
		return nil
	}
	return m.conn.Close()
}

// callProc calls proc with a path, or without arguments if path is nil. The
// results are valid until x.Release.
func (m *Mount) callProc(ctx context.Context, proc uint32, path *string, maxResults int) (x *oncrpc.Exchange, err error) {
	x = &oncrpc.Exchange{
		Prog: mount3.Program, Vers: mount3.Version, Proc: proc,
		Cred: m.cred, MaxResults: maxResults,
	}
	if path != nil {
		if len(*path) > mount3.PathLen {
			return nil, fmt.Errorf("MOUNT: %w", syscall.ENAMETOOLONG)
		}
		x.Args = xdr.AppendString(nil, *path)
	}
	if err := m.caller.Call(ctx, x); err != nil {
		return nil, fmt.Errorf("MOUNT: %w", err)
	}
	return x, nil
}

// finishCall releases a call whose results have been decoded, and returns any
// decoding error.
func (m *Mount) finishCall(x *oncrpc.Exchange) error {
	defer x.Release()
	if err := x.Results.Err(); err != nil {
		return fmt.Errorf("MOUNT: %w: %w", ErrReply, err)
	}
	return nil
}

// Null calls NULL, which does nothing, with AUTH_NONE.
func (m *Mount) Null(ctx context.Context) error {
	anyone := Mount{caller: m.caller, cred: rpcmsg.Cred{Flavor: rpcmsg.AuthNone}}
	x, err := anyone.callProc(ctx, mount3.ProcNull, nil, 0)
	if err != nil {
		return err
	}
	return m.finishCall(x)
}

// Mnt returns the file handle for an export, or for a directory below it (MNT).
// It fails if the export does not accept m's security flavor.
func (m *Mount) Mnt(ctx context.Context, path string) (nfs3.FH, error) {
	root, flavors, err := m.MntFlavors(ctx, path)
	if err == nil && len(flavors) > 0 && !slices.Contains(flavors, m.cred.Flavor) {
		return nil, &FlavorError{Path: path, Wanted: flavors, Accepted: []uint32{m.cred.Flavor}}
	}
	return root, err
}

// MntFlavors calls MNT and returns the export's flavors for the client to
// choose from. They are in the server's order (RFC 2623, Section 2.7); a server
// may list none.
func (m *Mount) MntFlavors(ctx context.Context, path string) (root nfs3.FH, flavors []uint32, err error) {
	x, err := m.callProc(ctx, mount3.ProcMnt, &path, 4+4+mount3.FHSize+4+4*maxFlavors)
	if err != nil {
		return nil, nil, err
	}
	var res mount3.MntRes
	res.Decode(&x.Results)
	root = slices.Clone(res.Handle)
	if err := m.finishCall(x); err != nil {
		return nil, nil, err
	}
	if res.Status != mount3.OK {
		return nil, nil, &MountError{Path: path, Status: res.Status}
	}
	return root, res.Flavors, nil
}

// Umnt informs the server that path is no longer in use (UMNT).
func (m *Mount) Umnt(ctx context.Context, path string) error {
	x, err := m.callProc(ctx, mount3.ProcUmnt, &path, 0)
	if err != nil {
		return err
	}
	return m.finishCall(x)
}

// An Export is a directory that the server exports.
type Export struct {
	Path    string
	Clients []string // allowed clients, as the server writes them; empty: all
}

// Exports lists the server's exports (EXPORT).
func (m *Mount) Exports(ctx context.Context) ([]Export, error) {
	x, err := m.callProc(ctx, mount3.ProcExport, nil, maxMountList)
	if err != nil {
		return nil, err
	}
	var res mount3.ExportRes
	res.Decode(&x.Results)
	var list []Export
	for _, e := range res.Exports {
		out := Export{Path: string(e.Path)}
		for _, g := range e.Groups {
			out.Clients = append(out.Clients, string(g))
		}
		list = append(list, out)
	}
	return list, m.finishCall(x)
}

// A MountEntry is a client that the server lists, and a path that the client has
// mounted.
type MountEntry struct{ Host, Path string }

// Dump lists the mounts that the server has recorded (DUMP).
func (m *Mount) Dump(ctx context.Context) ([]MountEntry, error) {
	x, err := m.callProc(ctx, mount3.ProcDump, nil, maxMountList)
	if err != nil {
		return nil, err
	}
	var res mount3.DumpRes
	res.Decode(&x.Results)
	var list []MountEntry
	for _, e := range res.Mounts {
		list = append(list, MountEntry{Host: string(e.Host), Path: string(e.Path)})
	}
	return list, m.finishCall(x)
}
