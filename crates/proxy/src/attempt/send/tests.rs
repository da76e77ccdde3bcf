use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::test_plan::hosted;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// A port of ours on the loopback address, which refuses until it is listened on.
fn socket() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
    let address = socket.local_addr().expect("a bound address");
    (socket, address)
}

/// Answers one request.
async fn serve(listener: TcpListener) {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut read = Vec::new();
    while !read.ends_with(b"{\"model\":\"m1\"}") {
        assert_ne!(stream.read_buf(&mut read).await.expect("a request"), 0);
    }
    stream.write_all(ANSWER).await.expect("the gateway reads");
}

async fn ask(gateway: SocketAddr) -> String {
    let mut client = TcpStream::connect(gateway).await.expect("the gateway listens");
    let request = "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\
                   Content-Length: 14\r\n\r\n{\"model\":\"m1\"}";
    client.write_all(request.as_bytes()).await.expect("the gateway reads");
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[test]
fn every_address_of_a_name_is_tried_in_order_and_the_one_that_answers_stays_first() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (_refusing, refuses) = socket();
        // Its queue is full: what else connects is neither taken nor refused.
        let (silent, is_silent) = socket();
        let _silent = silent.listen(1).expect("a listening port");
        let _queue = [TcpStream::connect(is_silent).await, TcpStream::connect(is_silent).await];
        let (alive, answers) = socket();
        let alive = alive.listen(8).expect("a listening port");
        // No resolver finds a label of so many characters, so that the addresses stay as they are set here.
        let running = hosted(&format!("http://{}", "n".repeat(70)));
        let replica = running.gateway().pools[0].replicas()[0].clone();
        replica.set_addresses(vec![refuses, is_silent, answers]);
        let serving = tokio::spawn(serve(alive));
        let answer = ask(running.address()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        serving.await.expect("it was asked");
        assert_eq!(*replica.addresses(), [answers, refuses, is_silent]);
        replica.set_addresses(vec![refuses, is_silent, answers]);
        assert_eq!(replica.addresses()[0], answers, "a name is looked up again and again");
        replica.set_addresses(vec![refuses]);
        let answer = ask(running.address()).await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("no_healthy_instances"), "{answer}");
    });
}
