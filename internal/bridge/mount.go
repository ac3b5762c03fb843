package bridge

import (
	"context"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Mount sends MOUNT calls to the program that a search finds: on the RDMA
// connection, or over TCP, as with Linux's server. It implements oncrpc.Caller and
// may be used by many goroutines.
type Mount struct {
	// Search describes the search. It must not change after the first call.
	Search nfsclient.MountSearch

	mu    sync.Mutex
	found *nfsclient.Mount // nil: not found yet, or lost
}

var _ oncrpc.Caller = (*Mount)(nil)

// Find searches for the program unless it is already found, and returns its
// location. Errors are those of nfsclient.MountSearch.
func (m *Mount) Find(ctx context.Context) (at string, err error) {
	found, err := m.findMount(ctx)
	if err != nil {
		return "", err
	}
	return found.At(), nil
}

// Call sends a call (oncrpc.Caller). It replaces a TCP connection that was closed
// in the meantime, because mountd closes idle connections. A repeated call is
// harmless: every MOUNT procedure may be executed twice.
func (m *Mount) Call(ctx context.Context, x *oncrpc.Exchange) error {
	found, err := m.findMount(ctx)
	if err != nil {
		return err
	}
	if err = found.Caller().Call(ctx, x); !errors.Is(err, oncrpc.ErrClosed) {
		return err
	}
	m.dropMount(found)
	if found, err = m.findMount(ctx); err != nil {
		return err
	}
	return found.Caller().Call(ctx, x)
}

// Close closes the connection, if any.
func (m *Mount) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == nil {
		return nil
	}
	return m.found.Close()
}

// findMount searches for one caller at a time; all callers use the result.
func (m *Mount) findMount(ctx context.Context) (*nfsclient.Mount, error) {
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

// dropMount closes and drops lost, unless another goroutine has already replaced
// it.
func (m *Mount) dropMount(lost *nfsclient.Mount) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == lost {
		_ = lost.Close()
		m.found = nil
	}
}
