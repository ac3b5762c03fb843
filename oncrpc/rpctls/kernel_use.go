package rpctls

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"

	"golang.org/x/sys/unix"
)

// A kernelUse determines whether connections use kernel TLS. It is safe for concurrent
// use.
type kernelUse struct {
	wanted bool
	module string
	log    *slog.Logger

	mu          sync.Mutex
	unsupported error // why the kernel does not support TLS, or nil
	logged      bool
}

func newKernelUse(wanted bool, log *slog.Logger) *kernelUse {
	u := &kernelUse{wanted: wanted, module: kernelModule, log: log}
	if wanted {
		u.recordSupport(probeKernel(u.module))
	}
	return u
}

// recordSupport records whether the kernel supported a connection, and logs once that it
// does not.
func (u *kernelUse) recordSupport(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.unsupported = err; err != nil && !u.logged {
		u.logged = true
		u.log.Debug("kernel TLS: not available; load the module tls", "err", err)
	}
}

// Values of Stats.Kernel.
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
	case u.unsupported != nil:
		return kernelMissing
	}
	return kernelOn
}

// requestSecrets makes crypto/tls provide a connection's secrets, if kernel TLS is
// wanted.
func (u *kernelUse) requestSecrets(cfg *tls.Config, w *recordWire) *trafficSecrets {
	if !u.wanted {
		return nil
	}
	secrets := new(trafficSecrets)
	cfg.KeyLogWriter, w.exact = secrets, true
	return secrets
}

// moveToKernel moves c to kernel TLS, if that is wanted and possible. It returns an error
// if c is lost.
func (u *kernelUse) moveToKernel(c *Conn, secrets *trafficSecrets) error {
	if secrets == nil {
		return nil
	}
	defer clear(secrets.client)
	defer clear(secrets.server)
	c.wire.exact = false
	if !c.wire.isBetweenRecords() {
		return nil
	}
	k, err := enterKernel(c.wire.Conn, u.module, c.state.CipherSuite, secrets, c.wire.server)
	if errors.Is(err, errKernelLost) {
		return &Error{Broken, err.Error(), err}
	}
	if !errors.Is(err, unix.ENOTCONN) { // the peer has gone
		u.recordSupport(err)
	}
	if err == nil {
		k.log = u.log
		c.kernel, c.tls, c.security.Kernel = k, nil, true
	}
	return nil
}
