package nfsrdma

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
)

// delegationPause is how long a file is not delegated after a recall, because another
// change will probably follow.
const delegationPause = 30 * time.Second

// delegationTable returns the table of version 4 delegations, or nil if there can be none.
func (c *ServerConfig) delegationTable(state *nfs4state.State) *recall.Table {
	config := recall.Config{Now: newClock(), Pause: delegationPause}
	if state.Grace().Writes > 0 || c.WriteDelegations && state.HasEarlierWriters() {
		config.Writing = state.HasEarlierWriters
	} else if c.NoDelegations {
		return nil
	}
	return recall.New(config)
}

// newClock returns a function that returns the time since the call of newClock.
func newClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// A serverState is the state of a server's clients.
type serverState struct {
	*nfs4state.State
	epoch    uint32
	machines []nfs4state.Machine // had locks before this start
}

// openState creates the state of clients, and opens their list.
func (c *ServerConfig) openState() (s serverState, list *clientList, err error) {
	if c.NoNFS3 && c.Minors != nil && len(c.Minors) == 0 {
		return s, nil, errors.New("nfsrdma: neither version 3 nor a minor version of version 4 is to be served: choose one")
	}
	for _, m := range c.Minors {
		if m > nfs4.MaxMinor {
			return s, nil, fmt.Errorf("nfsrdma: minor version %d of NFS version 4 is not supported: use 0, 1 or 2", m)
		}
	}
	clients, past, err := openClientList(c.Clients, c.Tenure, c.Log)
	if err != nil {
		return s, nil, err
	}
	if past.Counters > 0 {
		c.Log.Warn("clients may hold delegations from before the restart; changes wait until they expire", "time", past.Counters)
	}
	config := nfs4state.Config{Now: newClock(), Epoch: nextEpoch(&past, time.Now()), Lease: c.Lease4}
	if clients != nil {
		config.Journal, config.Past, config.Stored = clients, past, clients.reportStorage
	}
	return serverState{nfs4state.New(nfs4server.WithFiles(config)), config.Epoch, past.Machines()}, clients, nil
}

// serverID returns the identity of a server with a key. To clients, servers with the same
// identity are one server, so it is random without a key.
func serverID(key [32]byte) [16]byte {
	if key == ([32]byte{}) {
		rand.Read(key[:]) // never fails
	}
	id := sha256.Sum256(append([]byte("server owner "), key[:]...))
	return [16]byte(id[:])
}

// openKeeper opens the keeper of this project's delegations, which has the Table holders, or its
// own if that is nil. With StandardsOnly there is none.
func (c *ServerConfig) openKeeper(holders *recall.Table, state *nfs4state.State) (*delegserver.Keeper, error) {
	if c.StandardsOnly {
		return nil, nil
	}
	return delegserver.New(delegserver.Config{Lease: c.Lease, Holders: holders, Recorder: state})
}
