package fusefs

import "errors"

// A Mount is a mounted file system that is being served.
type Mount struct {
	cfg  Config
	done chan struct{} // closed when all is over
}

// New mounts and serves a file system. It returns when the file system answers.
func New(cfg Config) (*Mount, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	return nil, errors.ErrUnsupported
}

// Wait returns when the file system has been unmounted, by whomever, and
// everything is at the server that can be.
func (m *Mount) Wait() { <-m.done }

// Unmount unmounts the file system and waits as Wait does.
func (m *Mount) Unmount() error {
	return errors.ErrUnsupported
}
