package iwarp

import "github.com/nfsrdma/nfsrdma/iwarp/mpa"

// A checksum is the CRC of the part of an FPDU that has been cut so far. It
// stays 0 if CRCs are off.
type checksum struct {
	on  bool
	crc uint32
}

// add adds b.
func (s *checksum) add(b []byte) {
	if s.on {
		s.crc = mpa.UpdateCRC(s.crc, b)
	}
}

// copy copies src to dst and adds src, in one pass over src, which may not be
// in the processor's cache. With CRCs off it costs no more than a plain copy.
func (s *checksum) copy(dst, src []byte) {
	if s.on {
		s.crc = mpa.CopyCRC(s.crc, dst, src)
		return
	}
	copy(dst, src)
}
