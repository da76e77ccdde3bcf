//! `sluicegate explain`, asked of a running gateway.

use sluicegate_testkit::patiently;

use crate::http::get;
use crate::process::Process;

#[tokio::test]
async fn it_prints_the_route_the_candidates_and_the_steps_of_the_choice() {
    let mut sim = Process::start(&["sim", "--listen", "127.0.0.1:0", "--model", "m"]);
    let replica = sim.line_with("simulated replica").split("http://").nth(1).unwrap().trim().to_owned();
    let url = format!("http://{replica}");
    let words =
        ["serve", "--replica", &url, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--threads", "1"];
    let mut gateway = Process::start(&words);
    let (clients, admin) = gateway.addresses();
    patiently(async { while get(admin, "/readyz").await.status != 200 {} }).await;

    let admin = format!("http://{admin}");
    let words = ["explain", "--admin", &admin, "--model", "m", "--session", "s-1", "--text", "Hello"];
    let ended = Process::start(&words).ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    for text in [
        "route    m\n",
        &format!("result   {url} (predicted)\n"),
        &format!("> {url}"),
        "\n1. pool: ",
        "\n2. candidates: 1, ",
        "\n3. cost: the lowest, goes to ",
    ] {
        assert!(ended.stdout.contains(text), "{text:?} in {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("session  none"), "{}", ended.stdout);

    let ended = Process::start(&["explain", "--admin", &admin, "--model", "nobody"]).ended().await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("the gateway would answer 404"), "{}", ended.stderr);

    let url = format!("http://{clients}");
    let ended = Process::start(&["explain", "--admin", &url, "--model", "m"]).ended().await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("is not the admin side"), "{}", ended.stderr);
    assert!(ended.stderr.contains("--admin"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_missing_token_comes_with_the_variables_that_can_hold_it() {
    let folder = tempfile::tempdir().unwrap();
    let (token, file) = (folder.path().join("token"), folder.path().join("gate.toml"));
    std::fs::write(&token, "s3cret").unwrap();
    std::fs::write(&file, format!("[admin]\ntoken = \"file:{}\"\n", token.display())).unwrap();
    let mut gateway = Process::start(&[
        "serve",
        "--config",
        file.to_str().unwrap(),
        "--replica",
        "http://127.0.0.1:1",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ]);
    let (_, admin) = gateway.addresses();
    let ended = Process::start(&["explain", "--admin", &admin.to_string(), "--model", "m"]).ended().await;
    assert_eq!(ended.status.code(), Some(1));
    for text in ["SLUICEGATE_ADMIN_TOKEN", "--token-env"] {
        assert!(ended.stderr.contains(text), "{}", ended.stderr);
    }
}
