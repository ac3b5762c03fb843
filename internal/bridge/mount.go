package bridge

import (
	"context"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Mount makes the calls of MOUNT to the program that a search finds: on the
// RDMA connection, or over TCP, as with Linux's server. It implements
// oncrpc.Caller and may be used by many goroutines.
type Mount struct {
	// Search describes the search. It must not change after the first call.
	Search nfsclient.MountSearch

	mu    sync.Mutex
	found *nfsclient.Mount // nil: not yet searched, or lost
}

var _ oncrpc.Caller = (*Mount)(nil)

// Find looks for the program unless it is already found, and returns its place.
// Errors are those of nfsclient.MountSearch.
func (m *Mount) Find(ctx context.Context) (at string, err error) {
	found, err := m.find(ctx)
	if err != nil {
		return "", err
	}
	return found.At(), nil
}

// Call makes a call (oncrpc.Caller). It replaces a TCP connection that has
// ended in the meantime, because mountd closes idle connections. A repeated
// call is harmless: no procedure of MOUNT does harm if executed twice.
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

// Close closes the connection, if any.
func (m *Mount) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == nil {
		return nil
	}
	return m.found.Close()
}

// find searches for one caller at a time; the result serves all callers.
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

// lose forgets lost, unless another goroutine has already replaced it.
func (m *Mount) lose(lost *nfsclient.Mount) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == lost {
		_ = lost.Close()
		m.found = nil
	}
}
