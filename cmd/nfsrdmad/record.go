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

	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

// Limits for records, which peers can cause.
const (
	minRecord      = 128 << 10 // bytes kept per connection; iwarp's minimum
	maxRecords     = 100       // files; above this, a Terminate creates none
	recordInterval = time.Second
)

// A recorder writes the last bytes that connections sent and received to files in a
// directory. A nil recorder writes nothing.
type recorder struct {
	dir string
	log *slog.Logger

	mu          sync.Mutex
	last        time.Time // when the last file after a Terminate was created
	limitLogged bool      // the log says that there are too many files
}

// openRecorder creates the directory if it does not exist.
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

// recordOnSignal writes the records of all connections of d at each SIGUSR1, until stop is
// called.
func (r *recorder) recordOnSignal(d *iwarp.Device) (stop func()) {
	if r == nil {
		return func() {}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range signals {
			r.recordAll(d)
		}
	})
	return func() {
		signal.Stop(signals)
		close(signals)
		wg.Wait()
	}
}

// recordAll writes the record of each current connection.
func (r *recorder) recordAll(d *iwarp.Device) {
	conns := d.Conns()
	for _, c := range conns {
		r.recordConn(c, "on request")
	}
	if len(conns) == 0 {
		r.log.Info("no RDMA connection to record")
	}
}

// onConnEnd writes the record of a connection that was closed by a Terminate
// (iwarp.Config.Ended).
func (r *recorder) onConnEnd(c *iwarp.Conn, cause error) {
	if fault, ok := errors.AsType[*iwarp.Fault](cause); ok && r.mayWriteRecord() {
		r.recordConn(c, fault.Error())
	}
}

// mayWriteRecord reports whether a Terminate may create a file. A peer that repeatedly causes
// Terminates must not fill the disk.
func (r *recorder) mayWriteRecord() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.last) < recordInterval {
		return false
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "*"+recordSuffix))
	switch full := len(files) >= maxRecords; {
	case err != nil, full && r.limitLogged:
		return false
	case full:
		r.log.Warn("not recording Terminates: too many files; remove some", "dir", r.dir, "files", len(files))
		r.limitLogged = true
		return false
	}
	r.last, r.limitLogged = now, false
	return true
}

// recordSuffix is the suffix of the files' names.
const recordSuffix = ".pcap"

// recordConn creates a file named after the peer and the time.
func (r *recorder) recordConn(c *iwarp.Conn, reason string) {
	name := filepath.Join(r.dir, peerName(c.RemoteAddr())+time.Now().UTC().Format("-20060102T150405.000000Z")+recordSuffix)
	if err := writeRecord(name, c); err != nil {
		r.log.Warn("connection not recorded", "peer", c.RemoteAddr(), "err", err)
		return
	}
	r.log.Info("connection recorded", "peer", c.RemoteAddr(), "reason", reason, "file", name)
}

// peerName returns an address without the characters that cause problems in file names.
func peerName(a net.Addr) string {
	return strings.NewReplacer("[", "", "]", "", ":", "_", "%", "_").Replace(a.String())
}

// writeRecord creates a file that no other user may read, because it contains the clients'
// data.
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
