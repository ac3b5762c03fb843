package nfsclient

// ReadSize returns the most octets that one READ asks for: what the server and
// the Client's Config allow.
func (f *FS) ReadSize() int { return f.readSize }

// WriteSize returns the most octets that one WRITE carries.
func (f *FS) WriteSize() int { return f.writeSize }

// ListSize returns the octets that one READDIR or READDIRPLUS asks for.
func (f *FS) ListSize() int { return f.listSize }
