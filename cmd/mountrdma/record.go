package main

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/pcap"
	"github.com/nfsrdma/nfsrdma/iwarp"
)

// A recorder writes the last bytes that the program's connections sent and
// received to one file, the file of --record, which Wireshark opens. A nil
// recorder writes nothing.
type recorder struct {
	mu   sync.Mutex
	f    *os.File
	size int64
	err  error // the first
}

// openRecord creates the file of --record. No other user may read it, because
// it contains file data from the server.
func openRecord(name string) (*recorder, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	if err := pcap.NewFile(f).Flush(); err != nil {
		f.Close()
		return nil, fmt.Errorf("--record: %w", err)
	}
	return &recorder{f: f}, nil
}

// recorded enables recording in cfg if --record asks for it.
func (a *app) recorded(cfg *iwarp.Config) (err error) {
	if a.recordName == "" {
		return nil
	}
	if a.record == nil {
		if a.record, err = openRecord(a.recordName); err != nil {
			return err
		}
	}
	cfg.Record, cfg.Ended = recordSize, a.record.ended
	return nil
}

// ended adds the record of a connection (iwarp.Config.Ended).
func (r *recorder) ended(c *iwarp.Conn, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && r.size < recordLimit {
		r.err = c.WriteRecord(pcap.Continue(r))
	}
}

// Write writes to the file. The caller must hold r.mu.
func (r *recorder) Write(b []byte) (int, error) {
	n, err := r.f.Write(b)
	r.size += int64(n)
	return n, err
}

// close closes the file and returns the recorder's first error.
func (r *recorder) close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.err, r.f.Close()); err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	return nil
}
