package iwarp

import "github.com/nfsrdma/nfsrdma/iwarp/mpa"

// A checksum is the CRC of the FPDU that is being cut, as far as it is there. It
// stays 0 where CRCs are off.
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

// copy copies src to dst, and adds it. It takes one pass over src, which need not be
// in the processor's cache, and no more than a copy without CRC.
func (s *checksum) copy(dst, src []byte) {
	if s.on {
		s.crc = mpa.CopyCRC(s.crc, dst, src)
		return
	}
	copy(dst, src)
}
