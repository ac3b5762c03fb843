package bridge

import (
	"context"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Mount makes the calls of MOUNT where a search finds the program: on the RDMA
// connection, or over TCP, as Linux's server has it. It is for use by many
// goroutines, and implements oncrpc.Caller.
type Mount struct {
	// Search says where to look. It stays as it is from the first call on.
	Search nfsclient.MountSearch

	mu    sync.Mutex
	found *nfsclient.Mount // nil: not looked for, or lost
}

var _ oncrpc.Caller = (*Mount)(nil)

// Find looks for the program if it has not been found yet, and returns where it
// is. Errors are those of nfsclient.MountSearch.
func (m *Mount) Find(ctx context.Context) (at string, err error) {
	found, err := m.find(ctx)
	if err != nil {
		return "", err
	}
	return found.At(), nil
}

// Call makes a call (oncrpc.Caller). A TCP connection that has ended in the
// meantime, as mountd ends those that are idle, is replaced: no procedure of
// MOUNT does harm when it is executed twice.
func (m *Mount) Call(ctx context.Context, x *oncrpc.Exchange) error {
	found, err := m.find(ctx)
	if err != nil {
		return err
	}
	if err = found.Caller().Call(ctx, x); !errors.Is(err, oncrpc.ErrClosed) {
		return err
	}
	m.lose(found)
	if found, err = m.find(ctx); err != nil {
		return err
	}
	return found.Caller().Call(ctx, x)
}

// Close ends the connection, if there is one.
func (m *Mount) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == nil {
		return nil
	}
	return m.found.Close()
}

// find searches, one caller at a time, for what each would find.
func (m *Mount) find(ctx context.Context) (*nfsclient.Mount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == nil {
		found, err := m.Search.Find(ctx)
		if err != nil {
			return nil, err
		}
		m.found = found
	}
	return m.found, nil
}

// lose forgets what was found, unless somebody else has done so.
func (m *Mount) lose(lost *nfsclient.Mount) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == lost {
		_ = lost.Close()
		m.found = nil
	}
}
