package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// defaultControl returns the default path of the control socket. It returns ""
// for an ordinary user without a runtime directory.
func defaultControl() string {
	if os.Geteuid() == 0 {
		return "/run/nfsrdmad.sock"
	}
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return filepath.Join(d, "nfsrdmad.sock")
	}
	return ""
}

// Limits of the daemon's HTTP servers. They have few clients, which are quick.
const (
	httpRead = 10 * time.Second
	httpIdle = 2 * time.Minute
)

// newHTTP returns a server for m. It logs net/http's messages about clients at
// debug level.
func newHTTP(m http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: m, ReadTimeout: httpRead, IdleTimeout: httpIdle,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// A control is the socket at which a daemon serves its status.
type control struct {
	path   string
	lock   *os.File
	server *http.Server
	done   chan struct{}
}

// errControlTaken reports that another daemon has the socket.
var errControlTaken = errors.New("another nfsrdmad answers at it")

// openControl makes the socket and answers there until close. A live daemon
// holds the lock beside its socket; a socket without a lock holder is stale and
// is replaced.
func openControl(path string, p *operations, log *slog.Logger) (*control, error) {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, controlError(path, cli.Cause(err))
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errControlTaken
		}
		return nil, controlError(path, err)
	}
	l, err := listenControl(path)
	if err != nil {
		lock.Close()
		return nil, controlError(path, err)
	}
	m := http.NewServeMux()
	answer := func(document func() any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(document()) // fails if the client has gone
		}
	}
	m.HandleFunc("GET /status", answer(func() any { return p.status() }))
	m.HandleFunc("GET /clients", answer(func() any { return p.clients() }))
	m.HandleFunc("POST /clients/expire", obey(p.expire))
	m.HandleFunc("POST /clients/end-grace", obey(p.endGrace))
	m.HandleFunc("GET /exports", answer(func() any { return p.exportsDoc() }))
	m.HandleFunc("POST /exports/reload", obey(p.reloadExports))
	m.HandleFunc("POST /reload", obey(p.reload))
	c := &control{path: path, lock: lock, server: newHTTP(m, log), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_ = c.server.Serve(l) // until close
	}()
	return c, nil
}

// listenControl listens on a socket that only its owner can use, from the first
// moment.
func listenControl(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, errors.New("a file of that name is not a socket")
		}
		if err := os.Remove(path); err != nil {
			return nil, cli.Cause(err)
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".nfsrdmad") // only the owner may enter it
	if err != nil {
		return nil, cli.Cause(err)
	}
	defer os.RemoveAll(dir)
	inside := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: inside, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(inside, 0o600); err == nil {
		err = os.Rename(inside, path)
	}
	if err != nil {
		l.Close()
		return nil, cli.Cause(err)
	}
	return l, nil
}

// close ends the service. It does nothing if c is nil.
func (c *control) close() {
	if c == nil {
		return
	}
	_ = os.Remove(c.path) // while the lock is still held
	_ = c.server.Close()
	<-c.done
	c.lock.Close()
}

func controlError(path string, cause error) error {
	return fmt.Errorf("cannot create the control socket %s: %w; name another with --control, or turn it off with --control \"\"", path, cause)
}
