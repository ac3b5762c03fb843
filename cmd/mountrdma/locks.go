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

	"github.com/nfsrdma/nfsrdma/nfsclient/nlmclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

var errLocksUnencrypted = errors.New("lock manager not contacted: the mount uses xprtsec=, but this connection would not be encrypted")

// findLocks returns a client of the server's lock manager, or nil if locks hold on this host
// only. Unless an option requested that, it prints a message.
func (m *mountCommand) findLocks(ctx context.Context, s *session) *nlmclient.Client {
	if o := m.opts; o.NoLock || o.LocalPOSIX && o.LocalFlock {
		return nil
	}
	server := nlmclient.Server{NFS: s.line, Conn: func() any { return s.line.Conn() }, Hosts: s.target.hosts(), Current: s.serverHost}
	if m.usesTLS() {
		server.Dial = func(context.Context, string) (oncrpc.Caller, io.Closer, error) { return nil, nil, errLocksUnencrypted }
	}
	c, err := nlmclient.New(ctx, nlmclient.Config{
		Server: server,
		File:   lockStateFile(m.source, m.point), Log: m.log,
	})
	if err == nil {
		return c
	}
	fmt.Fprintf(m.stderr, "%s: locks hold on this host only: %v: %s\n", m.name, err, locksRemedy(err))
	return nil
}

// locksRemedy returns the remedy for a lock manager that was not found.
func locksRemedy(err error) string {
	if errors.Is(err, errLocksUnencrypted) {
		return "only nfsrdmad has locks inside TLS; mount with nolock if they need not hold on other hosts"
	}
	return "start its lock manager and rpcbind, or mount with nolock"
}

// describeLocks describes where a mount's locks hold.
func (m *mountCommand) describeLocks() string {
	switch {
	case m.locks == nil:
		return "locks on this host only"
	case !m.locks.CallsBack():
		return "locks at the server, which cannot call back"
	}
	return "locks at the server"
}

// lockStateFile returns the name of the file that lists a mount's locks, so that the next
// process for the same mount releases those that a killed one has left. It returns "" if
// there is no directory for it.
func lockStateFile(source, point string) string {
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
