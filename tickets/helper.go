package tickets

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/gss/krb5"
	"github.com/nfsrdma/nfsrdma/tickets/wire"
)

// A Config configures a Helper.
type Config struct {
	// Program is the path of nfsrdma-gss. All users must be able to run it.
	Program string

	// Keytab is the file with the keys of this machine, whose tickets root has.
	Keytab string

	// Host is the name of this machine, with its domain.
	Host string

	// Enctypes are the encryption types of contexts, the preferred first. Nil are all
	// that krb5 has.
	Enctypes []krb5.Enctype

	// Env is the environment of helpers, as of os.Environ. It must not name a
	// credential cache, because that would not be the user's.
	Env []string
}

// A Helper starts nfsrdma-gss for users. Many goroutines may use it at once.
type Helper struct {
	cfg     Config
	program *os.File      // nil: it cannot be opened
	limit   time.Duration // helperTime
	running chan struct{} // an element for each helper

	mu    sync.Mutex
	turns map[uint32]*turn // of users for whom a context is being made
}

// A turn lets a user have one helper at a time.
type turn struct {
	taken chan struct{} // of capacity 1
	waits int           // holders and waiters
}

// NewHelper returns a Helper. It opens the program, which later attempts start without
// its path: a mount, possibly the one that waits for the context, may cover that by
// then. This process would stop, because Go waits for the start of a program with a
// processor that it does not give back.
func NewHelper(cfg Config) *Helper {
	if cfg.Enctypes == nil {
		cfg.Enctypes = []krb5.Enctype{krb5.AES256SHA384, krb5.AES128SHA256, krb5.AES256SHA1, krb5.AES128SHA1}
	}
	h := &Helper{cfg: cfg, limit: helperTime, running: make(chan struct{}, maxHelpers), turns: make(map[uint32]*turn)}
	if fd, err := unix.Open(cfg.Program, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		h.program = os.NewFile(uintptr(fd), cfg.Program)
	}
	return h
}

// command returns the command that starts the program.
func (h *Helper) command() *exec.Cmd {
	cmd := exec.Command(h.cfg.Program)
	if h.program != nil {
		cmd.Path, cmd.ExtraFiles = "/proc/self/fd/3", []*os.File{h.program} // the first of these is 3 there
	}
	return cmd
}

// Begin starts to make a context with service, such as nfs@server.example, bound to a
// connection unless bindings are nil. It waits for other attempts of the user. Its errors, and those of the Initiator,
// are of type *Error unless ctx has ended.
func (h *Helper) Begin(ctx context.Context, user User, service string, bindings []byte) (gss.Initiator, error) {
	leave, err := h.enter(ctx, user.UID)
	if err != nil {
		return nil, err
	}
	a := &attempt{helper: h, user: user, leave: leave}
	if err := a.start(); err != nil {
		a.Close()
		return nil, err
	}
	if err := a.send(ctx, h.request(user, service, bindings)); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// enter waits for the user's turn, and for a place among all helpers.
func (h *Helper) enter(ctx context.Context, uid uint32) (leave func(), err error) {
	h.mu.Lock()
	t := h.turns[uid]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		h.turns[uid] = t
	}
	t.waits++
	h.mu.Unlock()
	forget := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.waits--; t.waits == 0 {
			delete(h.turns, uid)
		}
	}
	select {
	case t.taken <- struct{}{}:
	case <-ctx.Done():
		forget()
		return nil, context.Cause(ctx)
	}
	select {
	case h.running <- struct{}{}:
	case <-ctx.Done():
		<-t.taken
		forget()
		return nil, context.Cause(ctx)
	}
	return func() {
		<-h.running
		<-t.taken
		forget()
	}, nil
}

// request returns the request for a context.
func (h *Helper) request(user User, service string, bindings []byte) *wire.Request {
	q := &wire.Request{Service: service, Bindings: bindings}
	for _, e := range h.cfg.Enctypes {
		q.Enctypes = append(q.Enctypes, uint32(e))
	}
	if user.UID == 0 {
		q.Keytab, q.Principals = h.cfg.Keytab, machinePrincipals(h.cfg.Host)
	} else {
		q.Caches = findCaches(user.UID, directories(user.UID))
	}
	return q
}

// machinePrincipals returns the names of a machine in the order of Linux's gssd(8),
// and then the first of the keytab.
func machinePrincipals(host string) []string {
	short, _, _ := strings.Cut(host, ".")
	return []string{strings.ToUpper(short) + "$", "root/" + host, "nfs/" + host, "host/" + host, ""}
}

// Env returns the part of this process's environment that helpers may have: where
// the configuration of Kerberos is.
func Env() []string {
	return slices.DeleteFunc(os.Environ(), func(s string) bool {
		return !strings.HasPrefix(s, "KRB5_CONFIG=")
	})
}
