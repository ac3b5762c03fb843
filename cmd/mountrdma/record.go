package main

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/pcap"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

// A recorder writes the last bytes that the program's connections sent and received to the
// file of --record, which Wireshark can open. A nil recorder writes nothing.
type recorder struct {
	mu   sync.Mutex
	f    *os.File
	size int64
	err  error // the first error
}

// openRecord creates the file of --record. No other user may read it, because it contains
// file data from the server: an existing file must belong to this user and is made private,
// and the name must not be a symbolic link.
func openRecord(name string) (*recorder, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("--record: %s is a symbolic link: name the file itself", name)
	}
	if err == nil {
		if err = emptyRecord(f); err != nil {
			f.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	if err := pcap.NewFile(f).Flush(); err != nil {
		f.Close()
		return nil, fmt.Errorf("--record: %w", err)
	}
	return &recorder{f: f}, nil
}

// emptyRecord truncates an existing file, and makes it inaccessible to other users.
func emptyRecord(f *os.File) error {
	var st unix.Stat_t
	switch err := unix.Fstat(int(f.Fd()), &st); {
	case err != nil:
		return os.NewSyscallError("fstat", err)
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, who may read it: name another file, or remove it", f.Name(), st.Uid)
	}
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	return f.Truncate(0)
}

// enableRecording enables recording in cfg if --record is set.
func (a *app) enableRecording(cfg *iwarp.Config) (err error) {
	if a.recordName == "" {
		return nil
	}
	if a.recorder == nil {
		if a.recorder, err = openRecord(a.recordName); err != nil {
			return err
		}
	}
	cfg.Record, cfg.Ended = recordSize, a.recorder.addConn
	return nil
}

// addConn writes the record of a closed connection (iwarp.Config.Ended).
func (r *recorder) addConn(c *iwarp.Conn, _ error) {
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
