package rpctls

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"

	"golang.org/x/sys/unix"
)

// A kernelUse says whether connections enter the kernel. It is safe for concurrent use.
type kernelUse struct {
	wanted bool
	module string
	log    *slog.Logger

	mu   sync.Mutex
	lack error // why the kernel does not take connections, or nil
	told bool
}

func newKernelUse(wanted bool, log *slog.Logger) *kernelUse {
	u := &kernelUse{wanted: wanted, module: kernelModule, log: log}
	if wanted {
		u.note(lookForKernel(u.module))
	}
	return u
}

// note notes whether the kernel could take a connection, and logs once that it cannot.
func (u *kernelUse) note(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lack = err; err != nil && !u.told {
		u.told = true
		u.log.Debug("kernel TLS: not available; load the module tls", "err", err)
	}
}

// Words of Stats.Kernel.
const (
	kernelOff     = "off"
	kernelOn      = "on"
	kernelMissing = "not available"
)

func (u *kernelUse) String() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case !u.wanted:
		return kernelOff
	case u.lack != nil:
		return kernelMissing
	}
	return kernelOn
}

// prepare has crypto/tls tell the secrets of a connection, if it may enter the kernel.
func (u *kernelUse) prepare(cfg *tls.Config, w *wire) *trafficSecrets {
	if !u.wanted {
		return nil
	}
	secrets := new(trafficSecrets)
	cfg.KeyLogWriter, w.exact = secrets, true
	return secrets
}

// enter moves c into the kernel, if that is wanted and possible. It returns an error if c
// is lost.
func (u *kernelUse) enter(c *Conn, secrets *trafficSecrets) error {
	if secrets == nil {
		return nil
	}
	defer clear(secrets.client)
	defer clear(secrets.server)
	c.wire.exact = false
	if !c.wire.between() {
		return nil
	}
	k, err := enterKernel(c.wire.Conn, u.module, c.state.CipherSuite, secrets, c.wire.server)
	if errors.Is(err, errKernelLost) {
		return &Error{Broken, err.Error(), err}
	}
	if !errors.Is(err, unix.ENOTCONN) { // the peer has gone
		u.note(err)
	}
	if err == nil {
		k.log = u.log
		c.kernel, c.tls, c.security.Kernel = k, nil, true
	}
	return nil
}
