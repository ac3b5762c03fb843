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

// defaultControl is where status looks for the daemon: "" where an ordinary user
// has no directory for such things.
func defaultControl() string {
	if os.Geteuid() == 0 {
		return "/run/nfsrdmad.sock"
	}
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return filepath.Join(d, "nfsrdmad.sock")
	}
	return ""
}

// Limits of the daemon's HTTP servers. Who asks is one of few, and quick.
const (
	httpRead = 10 * time.Second
	httpIdle = 2 * time.Minute
)

// newHTTP returns a server of what m has. What net/http has to say of its clients
// is for those who look into problems.
func newHTTP(m http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: m, ReadTimeout: httpRead, IdleTimeout: httpIdle,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// A control is the socket at which a daemon tells of itself.
type control struct {
	path   string
	lock   *os.File
	server *http.Server
	done   chan struct{}
}

// errControlTaken: another daemon has the socket.
var errControlTaken = errors.New("another nfsrdmad answers at it")

// openControl makes the socket, and answers at it until close. A socket that a
// daemon has left behind is replaced: whoever is alive has the lock beside it.
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
	m.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.status()) // fails where nobody reads any more
	})
	c := &control{path: path, lock: lock, server: newHTTP(m, log), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_ = c.server.Serve(l) // until close
	}()
	return c, nil
}

// listenControl listens on a socket that its owner alone may use, from the start.
func listenControl(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, errors.New("there is something else that is no socket")
		}
		if err := os.Remove(path); err != nil {
			return nil, cli.Cause(err)
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".nfsrdmad") // which nobody else may enter
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

// close ends it. It may be called on nil.
func (c *control) close() {
	if c == nil {
		return
	}
	_ = os.Remove(c.path) // while nobody else can have it
	_ = c.server.Close()
	<-c.done
	c.lock.Close()
}

func controlError(path string, cause error) error {
	return fmt.Errorf("the control socket %s cannot be had: %w; name another with --control, or turn it off with --control \"\"", path, cause)
}
