package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nfsrdma/nfsrdma/lockclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

var errLocksInClear = errors.New("not asked, because the mount has xprtsec= and the way is in clear")

// findLocks returns the locks of a mount at the server, or nil if they hold on
// this host only. If nothing has asked for that, the user is told.
func (m *mountCommand) findLocks(ctx context.Context, s *session) *lockclient.Client {
	if o := m.opts; o.NoLock || o.LocalPOSIX && o.LocalFlock {
		return nil
	}
	server := lockclient.Server{NFS: s.line, Conn: func() any { return s.line.Conn() }, Host: s.client.MountSearch().Host}
	if m.encrypted() {
		server.Dial = func(context.Context, string) (oncrpc.Caller, io.Closer, error) { return nil, nil, errLocksInClear }
	}
	c, err := lockclient.New(ctx, lockclient.Config{
		Server: server,
		File:   locksFile(m.source, m.point), Log: m.log,
	})
	if err == nil {
		return c
	}
	fmt.Fprintf(m.stderr, "%s: locks hold on this host only: %v: %s\n", m.name, err, locksRemedy(err))
	return nil
}

// locksRemedy says what to do about a lock manager that is not found.
func locksRemedy(err error) string {
	if errors.Is(err, errLocksInClear) {
		return "only nfsrdmad has locks inside of TLS; mount with nolock if they need not hold elsewhere"
	}
	return "start its lock manager and rpcbind, or mount with nolock"
}

// locksAt says in the report of a mount where locks hold.
func (m *mountCommand) locksAt() string {
	switch {
	case m.locks == nil:
		return "locks on this host only"
	case !m.locks.CallsBack():
		return "locks at the server, which cannot call back"
	}
	return "locks at the server"
}

// locksFile returns the file that lists the locks of a mount, so that the next
// process for the same mount unlocks what a killed one has left; "" if no
// directory is known.
func locksFile(source, point string) string {
	dir := os.Getenv("XDG_STATE_HOME")
	switch home, err := os.UserHomeDir(); {
	case dir != "":
	case isRoot():
		dir = "/var/lib"
	case err != nil:
		return ""
	default:
		dir = filepath.Join(home, ".local/state")
	}
	sum := sha256.Sum256([]byte(source + "\x00" + point))
	return filepath.Join(dir, "mountrdma", "locks-"+hex.EncodeToString(sum[:8]))
}
