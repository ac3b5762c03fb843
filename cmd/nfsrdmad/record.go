package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/iwarp"
)

// Limits of records, which peers can cause.
const (
	minRecord   = 128 << 10 // bytes kept per connection; iwarp's minimum
	maxRecords  = 100       // files; with more, a Terminate makes none
	recordPause = time.Second
)

// A recorder writes the last bytes that connections sent and received to files
// of a directory. A nil recorder writes nothing.
type recorder struct {
	dir string
	log *slog.Logger

	mu   sync.Mutex
	last time.Time // the last file made after a Terminate
	full bool      // the log says that there are too many
}

// openRecorder makes the directory if it does not exist.
func openRecorder(dir string, log *slog.Logger) (*recorder, error) {
	if dir == "" {
		return nil, nil
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = unix.Access(dir, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return nil, fmt.Errorf("--record %s: %w: name a writable directory", dir, err)
	}
	return &recorder{dir: dir, log: log}, nil
}

// onSignal writes the records of all connections of d at each SIGUSR1, until
// stop is called.
func (r *recorder) onSignal(d *iwarp.Device) (stop func()) {
	if r == nil {
		return func() {}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR1)
	var running sync.WaitGroup
	running.Go(func() {
		for range signals {
			r.all(d)
		}
	})
	return func() {
		signal.Stop(signals)
		close(signals)
		running.Wait()
	}
}

// all writes the record of each present connection.
func (r *recorder) all(d *iwarp.Device) {
	conns := d.Conns()
	for _, c := range conns {
		r.write(c, "on request")
	}
	if len(conns) == 0 {
		r.log.Info("no RDMA connection to record")
	}
}

// ended writes the record of a connection that ended with a Terminate
// (iwarp.Config.Ended).
func (r *recorder) ended(c *iwarp.Conn, cause error) {
	if fault, ok := errors.AsType[*iwarp.Fault](cause); ok && r.mayWrite() {
		r.write(c, fault.Error())
	}
}

// mayWrite reports whether a Terminate may make a file. A peer that causes one
// Terminate after the other must not fill the disk.
func (r *recorder) mayWrite() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.last) < recordPause {
		return false
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "*"+recordSuffix))
	switch full := len(files) >= maxRecords; {
	case err != nil, full && r.full:
		return false
	case full:
		r.log.Warn("Terminates are not recorded any more; remove files", "dir", r.dir, "files", len(files))
		r.full = true
		return false
	}
	r.last, r.full = now, false
	return true
}

// recordSuffix is the suffix of file names.
const recordSuffix = ".pcap"

// write makes a file named after the peer and the time.
func (r *recorder) write(c *iwarp.Conn, reason string) {
	name := filepath.Join(r.dir, peerName(c.RemoteAddr())+time.Now().UTC().Format("-20060102T150405.000000Z")+recordSuffix)
	if err := writeRecord(name, c); err != nil {
		r.log.Warn("connection not recorded", "peer", c.RemoteAddr(), "err", err)
		return
	}
	r.log.Info("connection recorded", "peer", c.RemoteAddr(), "reason", reason, "file", name)
}

// peerName returns an address without the characters that cause trouble in file
// names.
func peerName(a net.Addr) string {
	return strings.NewReplacer("[", "", "]", "", ":", "_", "%", "_").Replace(a.String())
}

// writeRecord makes a file that no other user may read, because it contains the
// clients' data.
func writeRecord(name string, c *iwarp.Conn) error {
	var record bytes.Buffer
	if err := c.WriteRecord(&record); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = record.WriteTo(f)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(name)
	}
	return err
}
