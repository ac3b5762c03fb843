package nfsrdma

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/recall"
)

// delegationPause is how long a file is not delegated after a recall: whoever
// changes it will probably change it again.
const delegationPause = 30 * time.Second

// holders returns the table of delegations of version 4, or nil if there can be none.
func (c *ServerConfig) holders(state *nfs4state.State) *recall.Table {
	config := recall.Config{Now: clock(), Pause: delegationPause}
	if state.Grace().Writes > 0 || c.WriteDelegations && state.Writing() {
		config.Writing = state.Writing
	} else if c.NoDelegations {
		return nil
	}
	return recall.New(config)
}

// clock returns a function that returns the time since the call of clock.
func clock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// serverState is the state of a server's clients.
type serverState struct {
	*nfs4state.State
	epoch    uint32
	machines []nfs4state.Machine // that had locks before this start
}

// state returns the state of clients, and their list.
func (c *ServerConfig) state() (s serverState, list *clientList, err error) {
	for _, m := range c.Minors {
		if m > nfs4.MaxMinor {
			return s, nil, fmt.Errorf("nfsrdma: minor version %d of NFS version 4 is not served: 0, 1 and 2 are", m)
		}
	}
	clients, past, err := openClients(c.Clients, c.Log)
	if err != nil {
		return s, nil, err
	}
	config := nfs4state.Config{Now: clock(), Epoch: epoch4(&past, time.Now()), Lease: c.Lease4}
	if clients != nil {
		config.Journal, config.Past, config.Stored = clients, past, clients.stored
	}
	return serverState{nfs4state.New(nfs4server.WithFiles(config)), config.Epoch, past.Machines()}, clients, nil
}

// serverID returns the identity of a server with a key. Clients take servers of
// one identity for one server, so it is random without a key.
func serverID(key [32]byte) [16]byte {
	if key == ([32]byte{}) {
		rand.Read(key[:]) // never fails
	}
	id := sha256.Sum256(append([]byte("server owner "), key[:]...))
	return [16]byte(id[:])
}

// keeper opens the keeper of delegations. With StandardsOnly it does so only if
// the marker of an earlier run exists, because clients may then believe that
// they hold delegations.
func (c *ServerConfig) keeper() (*delegserver.Keeper, error) {
	if c.StandardsOnly {
		if _, err := os.Lstat(c.Marker); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return delegserver.New(delegserver.Config{Lease: c.Lease, Marker: c.Marker, Log: c.Log})
}
