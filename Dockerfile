# SPDX-License-Identifier: Apache-2.0
#
# A static binary in an image that holds nothing else.
#
#   docker build --build-arg VERSION=$(git describe --tags --always) -t ovpn-xdp .
#   docker run --network host --device /dev/net/tun \
#     --cap-drop ALL --cap-add NET_ADMIN --cap-add NET_RAW --cap-add BPF --cap-add PERFMON \
#     --cap-add SYS_ADMIN --security-opt seccomp=unconfined --ulimit memlock=-1 \
#     -v /sys/fs/bpf:/sys/fs/bpf -v /run/ovpn-xdp:/run/ovpn-xdp -v /var/lib/ovpn-xdp:/var/lib/ovpn-xdp \
#     ovpn-xdp run --nic eth0 --listen 192.0.2.2:1194 --dev tun0 --address 10.9.0.1/24
#
# What each is for:
#   NET_ADMIN  TUN device, addresses, the private veth pair of the tc rung, attaching XDP and tc programs,
#              SO_MARK and socket buffers above the system's limit
#   NET_RAW    AF_XDP sockets
#   BPF        loading programs, creating maps (kernel 5.8 and later)
#   PERFMON    lets the verifier accept the pointer arithmetic that compilers produce
#   SYS_ADMIN  only to mount bpffs where the host has not, and to name a foreign program that holds
#              the XDP slot; leave it out when /sys/fs/bpf is handed in as above
#   seccomp    Docker's profile refuses bpf(2) to a container without SYS_ADMIN in older releases
#   memlock    UMEM (and before 5.11 BPF maps) count against RLIMIT_MEMLOCK
#   --network host, since it is the host's NIC that records are picked from
#   /var/lib/ovpn-xdp keeps the fingerprints of used keys: lose it, and a key could be installed twice

ARG GO_VERSION=1.26
FROM golang:${GO_VERSION}-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
ARG TARGETARCH
RUN CGO_ENABLED=0 GOARCH=${TARGETARCH} go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X main.version=${VERSION}" -o /ovpn-xdp ./cmd/ovpn-xdp

FROM scratch
COPY --from=build /ovpn-xdp /usr/bin/ovpn-xdp
COPY --from=build /src/LICENSE /src/LICENSES/ /usr/share/doc/ovpn-xdp/
# Status and events for other processes on the host: share the folder of the admin socket.
VOLUME ["/run/ovpn-xdp", "/var/lib/ovpn-xdp"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/ovpn-xdp"]
CMD ["--help"]
